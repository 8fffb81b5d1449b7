package redisstore

import (
	"errors"
	"fmt"

	"weir/internal/limiter"
)

// reply is what a script says about a batch, see decide.lua.
type reply struct {
	now      int64   // time of the decisions, in microseconds since the epoch
	integers []int64 // what became of each counter, request after request
	begins   []int   // with which of them each request begins
	refusal  error   // of the requests whose writes Redis refused, nil if there are none
}

// What the scripts say of a counter, instead of its short state.
const (
	wordAdmitted = -1 // its state follows, in three integers
	wordOver     = -2 // so it does
	wordRefused  = -3 // of a whole request
)

// What a short state is reckoned with, see state.lua.
const million = 1_000_000

var errReply = errors.New("the script's reply is cut off or garbled")

// newReply reads the reply on requests that have so many counters each.
func newReply(integers []int64, counters []int) (r reply, err error) {
	if len(integers) == 0 || !possible(integers[:1]) {
		return reply{}, errReply
	}
	r.now, r.integers, r.begins = integers[0], integers[1:], make([]int, len(counters))
	next, refused := 0, false
	for i, n := range counters {
		r.begins[i] = next
		for range n {
			if next >= len(r.integers) {
				return reply{}, errReply
			}
			word := r.integers[next]
			if word == wordRefused {
				next++
				refused = true
				break
			}
			begin := next
			if next += length(word); next > len(r.integers) || !possible(r.integers[begin:next]) {
				return reply{}, errReply
			}
		}
	}
	switch rest := r.integers[next:]; {
	case refused:
		r.refusal = newScriptError(rest)
	case len(rest) > 0:
		return reply{}, fmt.Errorf("%w: %d integers too many", errReply, len(rest))
	}
	return r, nil
}

// length is how many integers tell of a counter, from the first of them.
func length(word int64) int {
	if word < 0 {
		return 4
	}
	return 1
}

// possible tells whether a script says such a thing of a counter.
func possible(words []int64) bool {
	if len(words) > 1 {
		if words[0] != wordAdmitted && words[0] != wordOver {
			return false
		}
		words = words[1:]
	}
	for _, n := range words {
		if n < 0 || n > limiter.MaxExact {
			return false
		}
	}
	return true
}

// decisions reads what became of hits, which are the request at place, into
// out, and tells whether the request is denied. It appends the states of the
// hits' counters to states.
func (r *reply) decisions(place int, hits []limiter.Hit, out []limiter.Decision, states []limiter.State) (_ []limiter.State, denied bool, err error) {
	if states, err = r.outcomes(place, out, states); err != nil {
		return nil, false, err
	}
	denied = limiter.Settle(hits, out)
	limiter.Describe(hits, states, r.now, out)
	return states, denied, nil
}

// outcomes reads which hits of the request at place are over, and appends the
// states of their counters after it.
func (r *reply) outcomes(place int, out []limiter.Decision, states []limiter.State) ([]limiter.State, error) {
	next := r.begins[place]
	for i := range out {
		word := r.integers[next]
		if word == wordRefused {
			return nil, unavailable(r.refusal)
		}
		out[i].Over = word == wordOver
		states = append(states, r.state(next))
		next += length(word)
	}
	return states, nil
}

// state reads the state that integers tell, from the given one on.
func (r *reply) state(begin int) limiter.State {
	if short := r.integers[begin]; short >= 0 {
		return limiter.State{At: short / million, Used: short % million}
	}
	return limiter.State{At: r.integers[begin+1], Used: r.integers[begin+2], Prev: r.integers[begin+3]}
}

// scriptError is an error that Redis replied to a command of the script.
type scriptError string

// newScriptError makes it of its bytes.
func newScriptError(integers []int64) scriptError {
	text := make([]byte, len(integers))
	for i, n := range integers {
		text[i] = byte(n)
	}
	return scriptError(text)
}

func (e scriptError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (e scriptError) RedisError() {}
