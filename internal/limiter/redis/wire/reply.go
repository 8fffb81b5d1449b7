package wire

import (
	"errors"
	"slices"

	"weir/internal/limiter"
)

// Reply is the script's reply to a batch.
type Reply struct {
	Now     int64           // time of the decisions, in microseconds since the epoch
	Refusal error           // error of Redis for the requests whose writes it refused, or nil
	Final   []limiter.State // final state of each counter if straight.lua or together.lua charged all hits, else nil
	later   []int64         // for each hit, the sum that later requests charged to its counter; nil if each counter has one hit
	hits    []int64         // if Final is nil, perHit integers for each hit
}

// layout is the second integer of a reply. The first is always the time.
type layout int64

// The layouts, as time.lua defines them. If the second integer is at least 0, it is not a
// layout: it and the rest are the short states of all counters, see straight.lua.
const (
	single   layout = -1 // requests were decided one by one: perHit integers for each hit, see decide.lua
	noWindow layout = -2 // nothing was done: the time is outside of the windows of a calendar
	together layout = -3 // all hits were admitted: three integers for each counter, see together.lua
)

const (
	perHit        = 5 // integers for a hit in layout single: its result and the four numbers of a state
	resultOver    = 1 // results, as time.lua defines them
	resultAlready = 2
	resultRefused = 3
	resultSettled = 4 // plus the reserved units

	million = 1_000_000 // factor of the first number in a short state, see state.lua
)

var (
	// ErrNoWindow means that the script did nothing, because the time of Redis, which is
	// Reply.Now, is outside the calendar windows that Command sent.
	ErrNoWindow = errors.New("the clock of Redis stepped twice by more than a calendar window")

	errReply = errors.New("the reply of the script is incomplete or invalid")
)

// Read reads the integers of a reply to the command of b. With ErrNoWindow, the reply has only
// the time.
func (b *Batch) Read(integers []int64) (Reply, error) {
	if len(integers) < 2 {
		return Reply{}, errReply
	}
	r, n := Reply{Now: integers[0]}, integers[2:]
	l := layout(integers[1])
	if l >= 0 {
		n = integers[1:]
	}
	impossible := func(n int64) bool { return n < 0 || n > limiter.MaxExact }
	if impossible(r.Now) || slices.ContainsFunc(n, impossible) {
		return Reply{}, errReply
	}
	var err error
	switch {
	case l == noWindow && len(n) == 0:
		err = ErrNoWindow
	case l == single:
		err = r.readSingle(b, n)
	case l == together && len(n) == 3*len(b.counters):
		err = r.readStates(b, func(i int) limiter.State { return limiter.State{At: n[3*i], Used: n[3*i+1], Prev: n[3*i+2]} })
	case l >= 0 && len(n) == len(b.counters):
		err = r.readStates(b, func(i int) limiter.State { return limiter.State{At: n[i] / million, Used: n[i] % million} })
	default:
		err = errReply
	}
	return r, err
}

// readSingle keeps the integers of all hits. If Redis refused a write, the bytes of Redis' error
// follow these integers, and readSingle sets r.Refusal.
func (r *Reply) readSingle(b *Batch, integers []int64) error {
	end := perHit * len(b.hits)
	if len(integers) < end {
		return errReply
	}
	r.hits = integers[:end]
	for i := 0; i < end; i += perHit {
		if r.hits[i] == resultRefused && r.Refusal == nil {
			text := make([]byte, len(integers)-end)
			for j, n := range integers[end:] {
				text[j] = byte(n)
			}
			r.Refusal = redisError(text)
		}
	}
	return nil
}

// readStates keeps the final state of each counter, which the function state returns by index in
// KEYS. It also computes r.later, because Outcomes reports the state after each request.
func (r *Reply) readStates(b *Batch, state func(key int) limiter.State) error {
	r.Final = make([]limiter.State, len(b.counters))
	for i, n := range b.order {
		r.Final[n] = state(i)
		if r.Final[n].Used < b.counters[n].sum {
			return errReply
		}
	}
	if len(b.hits) == len(b.counters) {
		return nil
	}
	r.later = make([]int64, len(b.hits))
	sums := make([]int64, len(b.counters))
	for request := b.Requests() - 1; request >= 0; request-- {
		begin, hits := int(b.ends[request]), b.hitsOf(request)
		for i, h := range hits {
			r.later[begin+i] = sums[h.counter]
		}
		for _, h := range hits {
			sums[h.counter] += h.cost
		}
	}
	return nil
}

// Outcomes sets Over, Already and Reserved in out, which has an element for each hit of the
// request. It appends to states, for each hit, the state of its counter after the request. It
// returns r.Refusal if Redis refused a write of the request.
func (b *Batch) Outcomes(r *Reply, request int, out []limiter.Decision, states []limiter.State) ([]limiter.State, error) {
	begin, hits := int(b.ends[request]), b.hitsOf(request)
	for i := range out {
		if r.Final != nil {
			state := r.Final[hits[i].counter]
			if r.later != nil {
				state.Used -= r.later[begin+i]
			}
			out[i].Over, out[i].Already, out[i].Reserved = false, false, 0
			states = append(states, state)
			continue
		}
		n := r.hits[perHit*(begin+i):]
		if n[0] == resultRefused {
			return nil, r.Refusal
		}
		out[i].Over, out[i].Already = n[0] == resultOver, n[0] == resultAlready
		out[i].Reserved = max(n[0]-resultSettled, 0)
		states = append(states, limiter.State{At: n[1], Used: n[2], Prev: n[3], Until: n[4]})
	}
	return states, nil
}

// redisError is the error reply of Redis to a command of the script.
type redisError string

func (e redisError) Error() string { return string(e) }

// RedisError implements redis.Error of go-redis.
func (e redisError) RedisError() {}
