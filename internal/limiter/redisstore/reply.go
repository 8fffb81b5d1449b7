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

// outcome is what it says about one hit.
type outcome struct {
	over  bool
	state limiter.State // of its counter, after its request
}

// parseReply reads a reply on so many hits: the time and the outcomes, each
// after a comma; an outcome is a state as it is stored, after a ! if the hit is
// over.
func parseReply(text string, hits int) (reply, error) {
	r := reply{outcomes: make([]outcome, 0, hits)}
	now, rest, more := strings.Cut(text, ",")
	p := parser{}
	r.now = p.number(now)
	for more {
		var o outcome
		var state string
		state, rest, more = strings.Cut(rest, ",")
		state, o.over = strings.CutPrefix(state, "!")
		at, state, _ := strings.Cut(state, " ")
		used, prev, three := strings.Cut(state, " ")
		o.state.At, o.state.Used = p.number(at), p.number(used)
		if three {
			o.state.Prev = p.number(prev)
		}
		r.outcomes = append(r.outcomes, o)
	}
	if len(r.outcomes) != hits {
		return reply{}, fmt.Errorf("the script replied on %d hits instead of %d", len(r.outcomes), hits)
	}
	if p.err != nil {
		return reply{}, fmt.Errorf("reading the reply of the script: %w", p.err)
	}
	return r, nil
}

// parser keeps the first error of many numbers.
type parser struct{ err error }

func (p *parser) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && p.err == nil {
		p.err = err
	}
	return n
}
