package redisstore

import (
	"bytes"
	"strconv"
	"time"

	"weir/internal/limiter"
)

// batch is the requests, or what is to be given back, that go to Redis in one
// call. It has its own copy of what it needs of them, because their callers may
// leave before it flies.
type batch struct {
	script   *script
	keys     texts // of each hit
	requests texts // of each request, as the script reads them

	loosened []loosened    // what is given back
	number   int64         // of the call, in the order of calls
	asked    time.Time     // when it began
	done     chan struct{} // closed when reply or err is set
	reply    reply
	err      error
}

// loosened is a counter to which a request of a batch gives something back.
type loosened struct {
	key   []byte
	place int // of the request
}

// add appends a request, or a part of one.
func (b *batch) add(hits []limiter.Hit, isPart bool) {
	text := b.requests.bytes
	for i := range hits {
		h := &hits[i]
		b.keys.bytes = append(b.keys.bytes, h.Key...)
		b.keys.end()
		if h.Refund && h.Cost > 0 {
			b.loosened = append(b.loosened, loosened{bytes.Clone(h.Key), b.requests.len()})
		}
		n := h.Limit.Numbers()
		for _, n := range [...]int64{how(h, isPart), h.Units(), int64(n.Kind), n.Of[0], n.Of[1], n.Of[2], n.Of[3]} {
			text = append(strconv.AppendInt(text, n, 10), ' ')
		}
	}
	b.requests.bytes = text
	b.requests.end()
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

// texts is a list of strings in one piece of memory.
type texts struct {
	bytes []byte
	ends  []int
}

// len is how many strings there are.
func (t *texts) len() int { return len(t.ends) }

// end ends a string: it is what was appended to bytes since the one before.
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
