package redis

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/limiter"
)

// batch is the requests, or what is to be given back, that go to Redis in one
// call. It has its own copy of what it needs of them, because their callers may
// leave before the call.
type batch struct {
	slot     int          // of a cluster, of all its counters
	limits   []definition // which it meets
	counters []counter
	keys     strings.Builder // of counters, in few allocations
	numbers  *numbers        // until it is called
	hits     []batchHit      // request after request
	ends     []int32         // of the requests, in hits
	order    []int32         // the counters as the script has them
	names    []byte          // of holds, as holds.lua reads them; nil if no counter has any

	needed       atomic.Int64 // of the requests, all but those whose callers have left
	until        time.Time    // somebody waits for the answer
	deadline     time.Time    // from then on, a call comes too late for all of them
	mustBeCalled bool         // however late it is, because something is written whatever becomes of a request

	number    int64         // of the call, in the order of calls
	asked     time.Time     // when it began
	redisTime int64         // about what the clock of Redis showed then, in microseconds since the epoch
	done      chan struct{} // closed when reply or err is set
	reply     reply
	err       error
}

// definition is what a script has to know of a limit. Many limits may have the same.
type definition struct {
	algorithm limiter.Algorithm
	constants [4]int64
	calendar  *limiter.Calendar // nil: none
	ban       time.Duration     // 0: none
}

// append appends d as limits.lua reads it. now is about the time of Redis. The windows of a
// calendar are those of a bit earlier: clocks differ, and a call may wait. The second of
// them still lasts for a while then.
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

// counter is a counter that a batch meets.
type counter struct {
	key      string
	limit    int32 // of its first hit
	separate bool  // its hits cannot be summed up
	sum      int64 // of the costs of its hits
}

// batchHit is a hit as the script sees it.
type batchHit struct {
	how            int8 // mode and charge in one number, see decide.lua
	limit, counter int32
	cost           int64          // of a hit with a hold the number of its name in batch.names, 0 if it is a peek
	charged        *limiter.State // of a charge to be given back
}

// credits reports whether h gives something back to a counter, other than a hold.
func (b *batch) credits(h batchHit) bool {
	return h.how/3 >= refundCharge && h.cost > 0 && b.limits[h.limit].algorithm != limiter.Concurrency
}

// giveBack is what one counter was charged by a request that turned out to be
// denied, or failed, somewhere else. decide.lua takes it back as
// limiter.Limit.GiveBack does.
type giveBack struct {
	limiter.Hit               // of the hits on the counter the first, with the cost of all, or its hold
	charged     limiter.State // of the counter, after the charge
	first       int           // which hit it is, of those of the request there
}

// numbers finds the limits and the counters of a batch that is being made.
type numbers struct {
	limits   map[definition]int32
	counters map[string]int32 // by key
}

// unused holds numbers of batches that were made, because maps that grow are dear.
var unused = sync.Pool{New: func() any { return &numbers{make(map[definition]int32), make(map[string]int32)} }}

// newBatch makes a batch with room for so many hits.
func newBatch(slot, expected int) *batch {
	return &batch{
		slot: slot, numbers: unused.Get().(*numbers), done: make(chan struct{}),
		counters: make([]counter, 0, expected), hits: make([]batchHit, 0, expected), ends: make([]int32, 0, expected),
	}
}

// add appends a request, or a part of one.
func (b *batch) add(hits []limiter.Hit, isPart bool) {
	for i := range hits {
		b.addHit(&hits[i], how(&hits[i], isPart), nil)
		b.mustBeCalled = b.mustBeCalled || hits[i].Unconditional()
	}
	b.ends = append(b.ends, int32(len(b.hits)))
}

// addGiveBack appends g, as a request of one hit.
func (b *batch) addGiveBack(g giveBack) {
	b.addHit(&g.Hit, giveBackHow, &g.charged)
	b.ends, b.mustBeCalled = append(b.ends, int32(len(b.hits))), true
}

// addHit appends a hit. The cost of one with a hold is twice the number of the name, from 1
// on, and 1 more unless it only asks for it.
func (b *batch) addHit(h *limiter.Hit, how int8, charged *limiter.State) {
	limit, cost := b.limit(h.Limit), h.CountedCost()
	n := b.counter(h.Key, limit)
	c := &b.counters[n]
	c.sum = min(c.sum+min(cost, maxSum), maxSum)
	c.separate = c.separate || how >= 3*refundCharge || cost == 0 || c.limit != limit || c.sum == maxSum || h.Hold != nil
	if h.Hold != nil {
		b.names = append(b.names, h.Hold...)
		cost += 2 * int64(len(b.names)/limiter.HoldSize)
	}
	b.hits = append(b.hits, batchHit{how, limit, n, cost, charged})
}

// hitsOf returns the hits of the request at place.
func (b *batch) hitsOf(place int) []batchHit { return b.hits[b.begin(place):b.ends[place]] }

// begin returns the number of the first hit of the request at place.
func (b *batch) begin(place int) int {
	if place == 0 {
		return 0
	}
	return int(b.ends[place-1])
}

// limit returns the number of the definition of a limit.
func (b *batch) limit(l *limiter.Limit) int32 {
	d := definition{l.Algorithm, l.Constants(), l.Calendar(), l.DenyFor}
	if d.algorithm == limiter.ByCalendar && d.calendar == nil {
		d.algorithm = limiter.FixedWindow // of a minute at most, which is the same in every calendar
	}
	n, known := b.numbers.limits[d]
	if !known {
		n = int32(len(b.limits))
		b.numbers.limits[d] = n
		b.limits = append(b.limits, d)
	}
	return n
}

// counter returns the number of the counter with that key, which its first hit is about to meet,
// with that limit, or has met.
func (b *batch) counter(key []byte, limit int32) int32 {
	n, known := b.numbers.counters[string(key)]
	if !known {
		n = int32(len(b.counters))
		begin := b.keys.Len()
		b.keys.Write(key)
		b.counters = append(b.counters, counter{key: b.keys.String()[begin:], limit: limit})
		b.numbers.counters[b.counters[n].key] = n
	}
	return n
}

// how is the mode and the charge of a hit in one number, see decide.lua. A quota
// limit of a part cannot deny it.
func how(h *limiter.Hit, isPart bool) int8 {
	mode := int8(h.EffectiveMode())
	if isPart && h.EffectiveMode() == limiter.Quota {
		mode = int8(limiter.Shadow)
	}
	switch {
	case h.Refund:
		return mode + 3*refundCharge
	case h.Always:
		return mode + 3*alwaysCharge
	}
	return mode
}

// arguments appends the keys and arguments of the script to args, the number of
// keys first. clock is there if it is not empty, or names of holds follow.
func (b *batch) arguments(args []any, clock string) []any {
	if n := b.numbers; n != nil { // nothing is added any more
		b.numbers = nil
		clear(n.limits)
		clear(n.counters)
		unused.Put(n)
	}
	text := make([]byte, 0, 64*len(b.limits)+16*len(b.hits))
	for i := range b.limits {
		text = b.limits[i].append(text, b.redisTime)
	}
	b.order = make([]int32, len(b.counters))
	for i := range b.order {
		b.order[i] = int32(i)
	}
	groups := b.appendGroups(nil)
	text = b.appendHits(append(text, ';'))
	args = append(args, len(b.order))
	for _, n := range b.order {
		args = append(args, &b.counters[n].key) // a pointer needs no memory of its own in an interface
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

// appendGroups appends the groups of counters that are charged together, as straight.lua reads
// them, or together.lua if not all are fixed windows. It puts the counters of each next to each
// other; or it does nothing if those ways are not for this batch.
func (b *batch) appendGroups(dst []byte) []byte {
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
		period, n := int64(0), int64(c.limit+1)
		if straight {
			period, n = b.limits[c.limit].constants[0], min(b.limits[c.limit].constants[1], million-1)
		}
		dst = appendInteger(appendInteger(dst, period, 7), n, 3)
		dst = appendInteger(appendInteger(dst, c.sum, 4), int64(i-begin), 2)
	}
	return dst
}

// maxSum is more than a counter is charged at once together with others.
const maxSum = math.MaxUint32

// appendHits appends the requests as decide.lua reads them.
func (b *batch) appendHits(dst []byte) []byte {
	places := make([]int32, len(b.order)) // of the counters in KEYS
	for i, n := range b.order {
		places[n] = int32(i)
	}
	for place := range b.ends {
		hits := b.hitsOf(place)
		for i, h := range hits {
			how := byte(h.how)
			if i == len(hits)-1 {
				how += lastHit
			}
			dst = append(appendInteger(dst, int64(places[h.counter]+1), 3), how)
			dst = appendInteger(appendInteger(dst, int64(h.limit+1), 3), h.cost, 7)
			if c := h.charged; c != nil {
				dst = appendInteger(appendInteger(appendInteger(dst, c.At, 7), c.Used, 7), c.Prev, 7)
			}
		}
	}
	return dst
}

const (
	lastHit      = 16    // marks the last hit of a request
	alwaysCharge = 1     // charge in batchHit.how of what is written whatever becomes of its request
	refundCharge = 2     // of a refund
	giveBackHow  = 3 * 3 // batchHit.how of what is given back
)

// appendInteger appends so many bytes of n, as the script reads an integer.
func appendInteger(dst []byte, n int64, bytes int) []byte {
	for bytes--; bytes >= 0; bytes-- {
		dst = append(dst, byte(n>>(8*bytes)))
	}
	return dst
}
