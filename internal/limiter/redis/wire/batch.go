package wire

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/limiter"
)

// Batch has the requests and releases that one call of the script decides. It copies the needed
// parts of the hits, because their callers may leave before the call.
type Batch struct {
	limits   []definition // the distinct limits
	counters []counter    // the distinct counters
	keys     strings.Builder
	index    *index  // nil when the batch is sealed
	hits     []hit   // hits of all requests, in order
	ends     []int32 // 0, then for each request the end of its hits in hits
	order    []int32 // indexes in counters in the order of KEYS, set by Command
	names    []byte  // names of the holds, as holds.lua reads them; nil if there are none
}

// definition is the part of a limit that the script needs. Limits with equal definitions share one.
type definition struct {
	algorithm limiter.Algorithm
	constants [4]int64
	calendar  *limiter.Calendar // nil unless the limit counts by calendar
	ban       time.Duration     // 0 if the limit does not ban
}

// counter is a counter of at least one hit.
type counter struct {
	key      string
	limit    int32 // index of the limit of its first hit
	separate bool  // its hits cannot be charged as one sum
	sum      int64 // sum of the costs of its hits, at most maxSum
}

// hit is a limiter.Hit as the script reads it.
type hit struct {
	how            int8  // mode + 3 * charge, as decide.lua reads it
	group          uint8 // limiter.Hit.Group
	limit, counter int32
	// record and recordLimit are the indexes of the counter and the limit of the reservation's record.
	record, recordLimit int32
	cost                int64          // in units; for a hold, twice the number of its name, counted from 1, plus 1 unless the hit is a peek
	charged             *limiter.State // Release.Charged of a release, else nil
}

// Release takes back the charge that a denied or failed request has left in one counter, as
// limiter.Limit.GiveBack does.
type Release struct {
	Hit     limiter.Hit   // the first hit on the counter, with the cost of all hits on it; for a hold or a reservation, its own hit
	Charged limiter.State // state of the counter after the charge
}

// index finds the limits and counters of an unsealed batch by their contents.
type index struct {
	limits   map[definition]int32
	counters map[string]int32 // by key
}

// indexes has cleared indexes of sealed batches, because growing maps is expensive.
var indexes = sync.Pool{New: func() any { return &index{make(map[definition]int32), make(map[string]int32)} }}

// MakeBatch returns an empty batch with room for n requests that have one hit each.
func MakeBatch(n int) Batch {
	return Batch{
		index:    indexes.Get().(*index),
		counters: make([]counter, 0, n), hits: make([]hit, 0, n), ends: make([]int32, 1, n+1),
	}
}

// Hits returns the number of hits and releases.
func (b *Batch) Hits() int { return len(b.hits) }

// Requests returns the number of requests and releases.
func (b *Batch) Requests() int { return len(b.ends) - 1 }

// IsSealed reports whether Command was called. After that, nothing may be added.
func (b *Batch) IsSealed() bool { return b.index == nil }

// Add appends a request. If isPart is set, hits are only a part of a request, the hits whose
// counters are in one location, and no quota limit denies them.
func (b *Batch) Add(hits []limiter.Hit, isPart bool) {
	for i := range hits {
		b.addHit(&hits[i], how(&hits[i], isPart), nil)
	}
	b.ends = append(b.ends, int32(len(b.hits)))
}

// AddRelease appends r as a request of one hit.
func (b *Batch) AddRelease(r Release) {
	if r.Hit.Reservation != nil { // a settlement with cost 0 also removes the record
		r.Hit.Refund, r.Hit.Cost = true, 0
		b.addHit(&r.Hit, 3*settleCharge, nil)
	} else {
		b.addHit(&r.Hit, 3*releaseCharge, &r.Charged)
	}
	b.ends = append(b.ends, int32(len(b.hits)))
}

func (b *Batch) addHit(h *limiter.Hit, how int8, charged *limiter.State) {
	limit, cost := b.limit(h.Limit), h.CountedCost()
	n := b.counter(h.Key, limit)
	c := &b.counters[n]
	c.sum = min(c.sum+min(cost, maxSum), maxSum)
	c.separate = c.separate || how >= 3*reserveCharge || cost == 0 || c.limit != limit || c.sum == maxSum || h.HasUses()
	if h.Hold != nil {
		b.names = append(b.names, h.Hold...)
		cost += 2 * int64(len(b.names)/limiter.HoldSize)
	}
	added := hit{how: how, group: h.Group, limit: limit, counter: n, cost: cost, charged: charged}
	if h.Reservation != nil {
		added.recordLimit = b.limit(h.Limit.Record())
		added.record = b.counter(h.Reservation, added.recordLimit)
		b.counters[added.record].separate = true
	}
	b.hits = append(b.hits, added)
}

// hitsOf returns the hits of a request.
func (b *Batch) hitsOf(request int) []hit { return b.hits[b.ends[request]:b.ends[request+1]] }

// limit returns the index of l's definition. It adds the definition if it is new.
func (b *Batch) limit(l *limiter.Limit) int32 {
	d := definition{l.Algorithm, l.Constants(), l.Calendar(), l.DenyFor}
	if d.algorithm == limiter.ByCalendar && d.calendar == nil {
		d.algorithm = limiter.FixedWindow // windows of at most a minute are the same in every calendar
	}
	n, known := b.index.limits[d]
	if !known {
		n = int32(len(b.limits))
		b.index.limits[d] = n
		b.limits = append(b.limits, d)
	}
	return n
}

// counter returns the index of the counter with this key. It adds the counter if it is new. limit
// is the index of the hit's limit.
func (b *Batch) counter(key []byte, limit int32) int32 {
	n, known := b.index.counters[string(key)]
	if !known {
		n = int32(len(b.counters))
		begin := b.keys.Len()
		b.keys.Write(key)
		b.counters = append(b.counters, counter{key: b.keys.String()[begin:], limit: limit})
		b.index.counters[b.counters[n].key] = n
	}
	return n
}

// The values of charge in hit.how. The value 0 charges the hit if its request is admitted.
const (
	alwaysCharge  = 1 // charges the hit even if its request is denied
	reserveCharge = 2 // charges the hit if its request is admitted, and records the reservation
	refundCharge  = 3 // refunds the cost
	releaseCharge = 4 // reverses an earlier charge, see Release
	settleCharge  = 5 // replaces the units of a reservation by the cost
)

func how(h *limiter.Hit, isPart bool) int8 {
	mode := int8(h.EffectiveMode())
	if isPart && h.EffectiveMode() == limiter.Quota {
		mode = int8(limiter.Shadow)
	}
	switch {
	case h.Refund && h.Reservation != nil:
		return mode + 3*settleCharge
	case h.Reservation != nil:
		return mode + 3*reserveCharge
	case h.Refund:
		return mode + 3*refundCharge
	case h.Always:
		return mode + 3*alwaysCharge
	}
	return mode
}

// Credits calls do for each hit that may lower a counter, except hits with a hold. hits is the
// number of hits of the request, hit is the hit's index among them, and key is the counter's key.
func (b *Batch) Credits(do func(request, hits, hit int, key string)) {
	for request := range b.Requests() {
		hits := b.hitsOf(request)
		for i, h := range hits {
			if h.how/3 >= refundCharge && (h.cost > 0 || h.how/3 == settleCharge) && b.limits[h.limit].algorithm != limiter.Concurrency {
				do(request, len(hits), i, b.counters[h.counter].key)
			}
		}
	}
}

// Command seals the batch and returns the command that decides it: EVALSHA, or EVAL with the
// text of the script. now is the approximate time of Redis, in microseconds since the epoch, and
// selects the windows of calendars. A non-empty clock replaces the time of Redis.
func (b *Batch) Command(eval bool, now int64, clock string) []any {
	if n := b.index; n != nil {
		b.index = nil
		clear(n.limits)
		clear(n.counters)
		indexes.Put(n)
	}
	text := make([]byte, 0, 64*len(b.limits)+16*len(b.hits))
	for i := range b.limits {
		text = b.limits[i].append(text, now)
	}
	b.order = make([]int32, len(b.counters))
	for i := range b.order {
		b.order[i] = int32(i)
	}
	groups := b.appendGroups(nil)
	text = b.appendHits(append(text, ';'))
	args := make([]any, 0, 7+len(b.counters))
	if eval {
		args = append(args, "eval", Script, len(b.order))
	} else {
		args = append(args, "evalsha", digest, len(b.order))
	}
	for _, n := range b.order {
		args = append(args, &b.counters[n].key) // a string in an interface would be allocated, a pointer is not
	}
	args = append(args, groups, text)
	if clock != "" || b.names != nil {
		args = append(args, clock)
	}
	if b.names != nil {
		args = append(args, b.names)
	}
	return args
}

// append appends d as limits.lua reads it. For a calendar, it writes the window that contains the
// time 30 seconds before now, and the next window, because clocks differ and the call may wait. So
// the two windows also cover some time after now.
func (d *definition) append(dst []byte, now int64) []byte {
	constants := d.constants
	if d.calendar != nil {
		const earlier = 30 * million
		w := d.calendar.Windows(now - earlier)
		constants[1], constants[2], constants[3] = w.Start, w.Next, w.End
	}
	dst = append(append(dst, d.algorithm.String()...), ' ')
	for _, n := range constants {
		dst = append(strconv.AppendInt(dst, n, 10), ' ')
	}
	if d.ban > 0 {
		dst = append(strconv.AppendInt(dst, d.ban.Microseconds(), 10), ' ')
	}
	return dst
}

// maxSum is the exclusive bound of a sum. A batch with a counter whose hits add up to maxSum or
// more is decided request by request.
const maxSum = math.MaxUint32

// appendGroups appends groups of counters that have the same limit and are charged the same sum,
// as straight.lua reads them or, if not all counters are fixed windows, together.lua. It sorts
// b.order by group. If the batch must be decided request by request, it returns nil.
func (b *Batch) appendGroups(dst []byte) []byte {
	straight := true
	for i := range b.counters {
		c := &b.counters[i]
		d := &b.limits[c.limit]
		if c.separate || d.ban > 0 || len(b.counters) > math.MaxUint16 {
			return nil
		}
		straight = straight && d.algorithm == limiter.FixedWindow
	}
	compare := func(i, j int32) int {
		c, d := &b.counters[i], &b.counters[j]
		return cmp.Or(cmp.Compare(c.limit, d.limit), cmp.Compare(c.sum, d.sum))
	}
	if !slices.IsSortedFunc(b.order, compare) {
		slices.SortStableFunc(b.order, compare)
	}
	for i := 0; i < len(b.order); {
		begin, c := i, &b.counters[b.order[i]]
		for i < len(b.order) && compare(b.order[i], b.order[begin]) == 0 {
			i++
		}
		period, amount := int64(0), int64(c.limit+1) // for together.lua, amount is the number of the limit
		if straight {
			period, amount = b.limits[c.limit].constants[0], min(b.limits[c.limit].constants[1], million-1)
		}
		dst = appendInteger(appendInteger(dst, period, 7), amount, 3)
		dst = appendInteger(appendInteger(dst, c.sum, 4), int64(i-begin), 2)
	}
	return dst
}

// appendHits appends the requests as decide.lua reads them.
func (b *Batch) appendHits(dst []byte) []byte {
	const lastHit, grouped = 32, 64     // added to the hit.how of a request's last hit, and of a hit with a group
	keys := make([]int32, len(b.order)) // for each counter, its index in KEYS
	for i, n := range b.order {
		keys[n] = int32(i)
	}
	for request := range b.Requests() {
		hits := b.hitsOf(request)
		for i, h := range hits {
			how := byte(h.how)
			if i == len(hits)-1 {
				how += lastHit
			}
			if h.group > 0 {
				how += grouped
			}
			dst = append(appendInteger(dst, int64(keys[h.counter]+1), 3), how)
			dst = appendInteger(appendInteger(dst, int64(h.limit+1), 3), h.cost, 7)
			if h.group > 0 {
				dst = append(dst, h.group)
			}
			if c := h.charged; c != nil {
				dst = appendInteger(appendInteger(appendInteger(dst, c.At, 7), c.Used, 7), c.Prev, 7)
			}
			if charge := h.how / 3; charge == reserveCharge || charge == settleCharge {
				dst = appendInteger(appendInteger(dst, int64(keys[h.record]+1), 3), int64(h.recordLimit+1), 3)
			}
		}
	}
	return dst
}

// appendInteger appends the given number of low bytes of n in big-endian order.
func appendInteger(dst []byte, n int64, bytes int) []byte {
	for bytes--; bytes >= 0; bytes-- {
		dst = append(dst, byte(n>>(8*bytes)))
	}
	return dst
}
