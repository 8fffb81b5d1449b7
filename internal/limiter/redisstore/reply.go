package redisstore

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/limiter"
)

// reply is what decide.lua says about a batch.
type reply struct {
	now      int64 // time of the decisions, in microseconds since the epoch
	outcomes []outcome
}

// outcome is what it says about a hit.
type outcome struct {
	over  bool
	state limiter.State // of its counter, after its request
}

// parseReply reads a reply on so many hits.
func parseReply(text string, hits int) (r reply, err error) {
	now, rest, more := strings.Cut(text, ",")
	if r.now, err = strconv.ParseInt(now, 10, 64); err != nil {
		return r, fmt.Errorf("reading the time that the script replied: %w", err)
	}
	r.outcomes = make([]outcome, 0, hits)
	for more {
		var hit string
		hit, rest, more = strings.Cut(rest, ",")
		state, over := strings.CutPrefix(hit, "!")
		s, err := parseState(state)
		if err != nil {
			return r, fmt.Errorf("reading %.40q, which the script replied: %w", hit, err)
		}
		r.outcomes = append(r.outcomes, outcome{over, s})
	}
	if len(r.outcomes) != hits {
		return r, fmt.Errorf("the script replied on %d hits instead of %d", len(r.outcomes), hits)
	}
	return r, nil
}

// parseState reads a state as it is stored.
func parseState(text string) (s limiter.State, err error) {
	at, rest, _ := strings.Cut(text, " ")
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
