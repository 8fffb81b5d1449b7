package rls

import (
	"strconv"
	"time"

	"weir/internal/limiter"
	"weir/internal/plan"
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

// about returns the headers for a request with these statuses, none if no limit was
// counted.
func (h Headers) about(statuses []plan.Status) []header {
	if h == (Headers{}) {
		return nil
	}
	s := tightest(statuses)
	if s == nil {
		return nil
	}
	return []header{
		{h.Limit, strconv.FormatUint(s.Limit.RequestsPerUnit, 10)},
		{h.Remaining, strconv.FormatUint(s.Remaining, 10)},
		{h.Reset, strconv.FormatInt(int64(s.ResetAfter/time.Second), 10)},
	}
}

// tightest returns the status that headers are about: the last one that denies
// the request by itself, else the first with the least left. It is nil if no limit
// was counted.
func tightest(statuses []plan.Status) *plan.Status {
	var least *plan.Status
	for i := range statuses {
		s := &statuses[i]
		switch {
		case s.Limit == nil:
		case denies(s):
			least = s
		case least == nil, !denies(least) && s.Remaining < least.Remaining:
			least = s
		}
	}
	return least
}

// denies reports whether s denies the request whatever the other statuses are,
// which a quota does not.
func denies(s *plan.Status) bool { return s.OverLimit && s.Mode == limiter.Enforced }
