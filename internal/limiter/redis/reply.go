package redis

import (
	"errors"
	"slices"

	"weir/internal/limiter"
)

// reply is what the script says about a batch, see straight.lua, together.lua and decide.lua.
type reply struct {
	now      int64           // time of the decisions, in microseconds since the epoch
	integers []int64         // all else, of each hit
	together []limiter.State // of each counter instead, if all requests were charged together
	later    []int64         // what requests behind its own charge the counter of each hit, if together; nil if nothing
	refusal  error           // of the requests whose writes Redis refused, nil if there are none
}

// The words of replies, as time.lua has them.
const (
	waySingle   = -1
	wayNoWindow = -2
	wayTogether = -3

	wordOver    = 1
	wordAlready = 2
	wordRefused = 3
)

// perHit is how many integers decide.lua says of a hit.
const perHit = 5

// million is what a short state is reckoned with, see state.lua.
const million = 1_000_000

var errReply = errors.New("the reply of the script is incomplete or invalid")

// errNoWindow is that of a call that was repeated for it, in vain.
var errNoWindow = errors.New("the clock of Redis stepped twice by more than a calendar window")

// noWindow reports whether the script has done nothing because the windows of a calendar were
// not those of its time, which is the first integer.
func (a answer) noWindow() bool {
	return a.err == nil && len(a.integers) == 2 && a.integers[1] == wayNoWindow && possible(a.integers[0])
}

// newReply reads the reply on a batch.
func newReply(a answer, b *batch) (reply, error) {
	switch {
	case a.err != nil:
		return reply{}, a.err
	case a.noWindow():
		return reply{}, errNoWindow
	case len(a.integers) < 2:
		return reply{}, errReply
	}
	r := reply{now: a.integers[0], integers: a.integers[1:]}
	way := r.integers[0]
	if way == waySingle || way == wayTogether {
		r.integers = r.integers[1:]
	}
	impossible := func(n int64) bool { return !possible(n) }
	if impossible(r.now) || slices.ContainsFunc(r.integers, impossible) {
		return reply{}, errReply
	}
	var state func(i int) limiter.State
	switch n := r.integers; {
	case way == wayTogether && len(n) == 3*len(b.counters):
		state = func(i int) limiter.State { return limiter.State{At: n[3*i], Used: n[3*i+1], Prev: n[3*i+2]} }
	case way >= 0 && len(n) == len(b.counters):
		state = func(i int) limiter.State { return limiter.State{At: n[i] / million, Used: n[i] % million} }
	case way != waySingle:
		return reply{}, errReply
	}
	if state != nil {
		err := r.readTogether(b, state)
		return r, err
	}
	end := perHit * len(b.hits)
	if len(r.integers) < end {
		return reply{}, errReply
	}
	for i := 0; i < end; i += perHit {
		switch word := r.integers[i]; {
		case word > wordRefused:
			return reply{}, errReply
		case word == wordRefused && r.refusal == nil:
			text := make([]byte, len(r.integers)-end)
			for j, n := range r.integers[end:] {
				text[j] = byte(n)
			}
			r.refusal = scriptError(text)
		}
	}
	return r, nil
}

// readTogether finds the state of each counter, and what it was charged after each hit.
// The order of the requests is that of the batch. state is that of a counter by its place in KEYS.
func (r *reply) readTogether(b *batch, state func(i int) limiter.State) error {
	r.together = make([]limiter.State, len(b.counters))
	for i, n := range b.order {
		r.together[n] = state(i)
		if r.together[n].Used < b.counters[n].sum {
			return errReply
		}
	}
	if len(b.hits) == len(b.counters) {
		return nil
	}
	r.later = make([]int64, len(b.hits))
	sums := make([]int64, len(b.counters))
	for place := len(b.ends) - 1; place >= 0; place-- {
		begin, hits := b.begin(place), b.hitsOf(place)
		for i, h := range hits {
			r.later[begin+i] = sums[h.counter]
		}
		for _, h := range hits {
			sums[h.counter] += h.cost
		}
	}
	return nil
}

// possible reports whether a script says such a number.
func possible(n int64) bool { return n >= 0 && n <= limiter.MaxExact }

// outcomes reads which hits of a request are over, and appends the states of their counters
// after it. The call must have ended.
func (t ticket) outcomes(out []limiter.Decision, states []limiter.State) ([]limiter.State, error) {
	if t.batch.err != nil {
		return nil, t.batch.err
	}
	r, begin, hits := &t.batch.reply, t.batch.begin(t.place), t.batch.hitsOf(t.place)
	for i := range out {
		if r.together != nil {
			state := r.together[hits[i].counter]
			if r.later != nil {
				state.Used -= r.later[begin+i]
			}
			out[i].Over, out[i].Already = false, false
			states = append(states, state)
			continue
		}
		n := r.integers[perHit*(begin+i):]
		if n[0] == wordRefused {
			return nil, unavailable(r.refusal)
		}
		out[i].Over, out[i].Already = n[0] == wordOver, n[0] == wordAlready
		states = append(states, limiter.State{At: n[1], Used: n[2], Prev: n[3], Until: n[4]})
	}
	return states, nil
}

// scriptError is an error that Redis replied to a command of the script.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (e scriptError) RedisError() {}
