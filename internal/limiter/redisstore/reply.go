package redisstore

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/limiter"
)

// reply is what decide.lua says about a batch.
type reply struct {
	now      int64    // time of the decisions, in microseconds since the epoch
	requests []string // of each request, what became of it
}

func newReply(texts []string, requests int) (r reply, err error) {
	if len(texts) != 1+requests {
		return reply{}, fmt.Errorf("the script replied on %d requests instead of %d", len(texts)-1, requests)
	}
	r.requests = texts[1:]
	if r.now, err = strconv.ParseInt(texts[0], 10, 64); err != nil {
		return reply{}, fmt.Errorf("reading the time of the script: %w", err)
	}
	return r, nil
}

// failure is the error of the requests whose writes Redis refused, nil if there
// are none. They all have the same.
func (r *reply) failure() error {
	for _, text := range r.requests {
		if refused, ok := strings.CutPrefix(text, "-"); ok {
			return scriptError(refused)
		}
	}
	return nil
}

// scriptError is an error that Redis replied to a command of the script.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (e scriptError) RedisError() {}

// decisions reads what became of hits, which are the request at place, into
// out, and tells whether the request is denied. It appends the states of the
// hits' counters to states.
func (r *reply) decisions(place int, hits []limiter.Hit, out []limiter.Decision, states []limiter.State) (_ []limiter.State, denied bool, err error) {
	if states, err = r.outcomes(place, out, states); err != nil {
		return nil, false, err
	}
	denied = limiter.Settle(hits, out)
	for i := range hits {
		limiter.Describe(hits, i, states[i], r.now, &out[i])
	}
	return states, denied, nil
}

// outcomes reads which hits of the request at place are over, and appends the
// states of their counters after it.
func (r *reply) outcomes(place int, out []limiter.Decision, states []limiter.State) ([]limiter.State, error) {
	text := r.requests[place]
	if refused, ok := strings.CutPrefix(text, "-"); ok {
		return nil, unavailable(scriptError(refused))
	}
	for i := range out {
		outcome, rest, _ := strings.Cut(text, ",")
		state, over := strings.CutPrefix(outcome, "!")
		s, err := parseState(state)
		if err != nil {
			return nil, unavailable(fmt.Errorf("reading the reply of the script: %w", err))
		}
		states, text = append(states, s), rest
		out[i].Over = over
	}
	return states, nil
}

// parseState reads a state as it is stored, see decide.lua.
func parseState(text string) (s limiter.State, err error) {
	at, rest, apart := strings.Cut(text, " ")
	if !apart {
		both, err := strconv.ParseInt(text, 10, 64)
		return limiter.State{At: both / 1_000_000, Used: both % 1_000_000}, err
	}
	used, prev, three := strings.Cut(rest, " ")
	if s.At, err = strconv.ParseInt(at, 10, 64); err != nil {
		return s, err
	}
	if s.Used, err = strconv.ParseInt(used, 10, 64); err != nil || !three {
		return s, err
	}
	s.Prev, err = strconv.ParseInt(prev, 10, 64)
	return s, err
}
