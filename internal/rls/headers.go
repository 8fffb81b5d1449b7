package rls

import (
	"strconv"

	"weir/internal/limiter"
)

// Headers names the headers that tell about the limit closest to its end. The
// zero value is none.
type Headers struct {
	Limit     string // amount per period
	Remaining string // what is left of it
	Reset     string // seconds until the whole amount is free again
}

// header is a HeaderValue.
type header struct {
	key, value string
}

// about returns the headers for a, none if no limit was counted.
func (h Headers) about(a *answer) []header {
	if h == (Headers{}) {
		return nil
	}
	s := a.tightest()
	if s == nil {
		return nil
	}
	return []header{
		{h.Limit, strconv.FormatUint(uint64(s.limit.RequestsPerUnit), 10)},
		{h.Remaining, strconv.FormatUint(uint64(s.remaining), 10)},
		{h.Reset, strconv.FormatInt(seconds(s.resetAfter), 10)},
	}
}

// tightest returns the status that headers are about: the last one that denies
// the request by itself, else the first with the least left. It is nil if no limit
// was counted.
func (a *answer) tightest() *status {
	var least *status
	for i := range a.statuses {
		s := &a.statuses[i]
		switch {
		case s.limit == nil:
		case s.denies():
			least = s
		case least == nil, !least.denies() && s.remaining < least.remaining:
			least = s
		}
	}
	return least
}

// denies tells whether s denies the request whatever the other statuses are,
// which a quota does not.
func (s *status) denies() bool {
	return s.code == codeOverLimit && s.mode == limiter.Enforced
}
