package redisstore

import (
	"bytes"
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/limiter"
)

// batch is the requests, or what is to be given back, that go to Redis in one
// call. It has its own copy of what it needs of them, because their callers may
// leave before the call.
type batch struct {
	script   *script
	limits   []byte                 // which it meets, as limits.lua reads them
	numbers  map[*limiter.Limit]int // of the limits, from 1 on
	keys     texts                  // of each hit
	requests texts                  // of each request, as the script reads them
	counters []int                  // how many each request has, as often as it hits them

	needed     atomic.Int64 // of the requests, all but those whose callers have left
	deadline   time.Time    // of the call, for the request that can wait longest
	noDeadline bool         // the call must be made however late it is

	credited []credit      // what is given back
	number   int64         // of the call, in the order of calls
	asked    time.Time     // when it began
	done     chan struct{} // closed when reply or err is set
	reply    reply
	err      error
}

// credit is a counter to which a request of a batch gives something back.
type credit struct {
	key   []byte
	place int // of the request
}

// newBatch makes a batch for a script, with room for as much as is expected.
func newBatch(s *script, expected room) *batch {
	return &batch{
		script: s, numbers: make(map[*limiter.Limit]int), done: make(chan struct{}),
		limits:   make([]byte, 0, expected.limits),
		keys:     texts{make([]byte, 0, expected.keys), make([]int, 0, expected.hits)},
		requests: texts{make([]byte, 0, expected.texts), make([]int, 0, expected.requests)},
		counters: make([]int, 0, expected.requests),
	}
}

// room is how much a batch holds, the first three in bytes.
type room struct{ limits, keys, texts, hits, requests int }

func (b *batch) size() room {
	return room{len(b.limits), len(b.keys.bytes), len(b.requests.bytes), b.keys.len(), b.requests.len()}
}

// add appends a request, or a part of one.
func (b *batch) add(hits []limiter.Hit, isPart bool) {
	for i := range hits {
		h := &hits[i]
		b.keys.add(h.Key)
		if h.Refund && h.Cost > 0 {
			b.credited = append(b.credited, credit{bytes.Clone(h.Key), b.requests.len()})
		}
		b.requests.write(how(h, isPart), h.CountedCost(), b.limit(h.Limit))
	}
	b.requests.end()
	b.counters = append(b.counters, len(hits))
}

// need notes that a caller waits for a request of b, to be called before the deadline.
func (b *batch) need(deadline time.Time) {
	b.needed.Add(1)
	b.noDeadline = b.noDeadline || deadline.IsZero()
	if deadline.After(b.deadline) {
		b.deadline = deadline
	}
}

// leave notes that the caller of a request has left. The request is called all the
// same, if the callers of others in b wait.
func (b *batch) leave() { b.needed.Add(-1) }

// late reports whether a call would be too late for all callers.
func (b *batch) late(now time.Time) bool { return !b.noDeadline && now.After(b.deadline) }

// limit returns the number of a limit, as an argument.
func (b *batch) limit(l *limiter.Limit) int64 {
	n, known := b.numbers[l]
	if !known {
		n = len(b.numbers) + 1
		b.numbers[l] = n
		c := l.Constants()
		b.limits = append(append(b.limits, l.Algorithm.String()...), ' ')
		b.limits = appendIntegers(b.limits, c[:]...)
	}
	return int64(n)
}

// how is the mode and the charge of a hit in one number, see decide.lua. A quota
// limit of a part cannot deny it.
func how(h *limiter.Hit, isPart bool) int64 {
	mode := int64(h.EffectiveMode())
	if isPart && h.EffectiveMode() == limiter.Quota {
		mode = int64(limiter.Shadow)
	}
	switch {
	case h.Refund:
		return mode + 3*2
	case h.Always:
		return mode + 3*1
	}
	return mode
}

// appendIntegers appends integers as the scripts read them.
func appendIntegers(dst []byte, integers ...int64) []byte {
	for _, n := range integers {
		dst = append(strconv.AppendInt(dst, n, 10), ' ')
	}
	return dst
}

// texts is a list of strings in one piece of memory.
type texts struct {
	bytes []byte
	ends  []int
}

// len is how many strings there are.
func (t *texts) len() int { return len(t.ends) }

// add appends a string.
func (t *texts) add(s []byte) {
	t.bytes = append(t.bytes, s...)
	t.end()
}

// write appends integers to the string that end will end.
func (t *texts) write(integers ...int64) { t.bytes = appendIntegers(t.bytes, integers...) }

// end ends a string: it is what was written since the one before.
func (t *texts) end() { t.ends = append(t.ends, len(t.bytes)) }

// appendTo appends the strings to the arguments of a command, as pointers,
// which need no memory of their own in an interface.
func (t *texts) appendTo(args []any) []any {
	all, list, start := string(t.bytes), make([]string, len(t.ends)), 0
	for i, end := range t.ends {
		list[i] = all[start:end]
		args = append(args, &list[i])
		start = end
	}
	return args
}
