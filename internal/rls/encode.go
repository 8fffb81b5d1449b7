package rls

import (
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// Headers has the names of the headers that describe the tightest limit. The zero value disables
// them.
type Headers struct {
	Limit     string // header for the units per period
	Remaining string // header for the remaining units
	Reset     string // header for the seconds until the full limit is available again
}

// appendResponse appends a RateLimitResponse. Like generated code, it omits fields with their
// default value.
func (s *Service) appendResponse(b []byte, r *plan.Request, result *plan.Result) []byte {
	b = appendUint(b, 1, codeOf(result.Denied))
	for i := range result.Statuses {
		b = appendMessage(b, 2, func(b []byte) []byte { return appendStatus(b, &result.Statuses[i]) })
	}
	if status := tightest(result.Statuses); status != nil {
		b = s.opts.ResponseHeaders.append(b, 3, status)
		b = s.opts.RequestHeaders.append(b, 4, status)
	}
	if s.opts.DynamicMetadata || result.Plan.Token != "" && !result.Denied {
		b = protowire.AppendTag(b, 6, protowire.BytesType)
		b = protowire.AppendBytes(b, s.metadata(r, result))
	}
	return b
}

// codeOf returns the RateLimitResponse.Code.
func codeOf(overLimit bool) uint64 {
	if overLimit {
		return 2
	}
	return 1
}

// append appends the headers for s as HeaderValues in field num.
func (h Headers) append(b []byte, num protowire.Number, s *plan.Status) []byte {
	if h == (Headers{}) {
		return b
	}
	for _, header := range [...]struct {
		name  string
		value uint64
	}{{h.Limit, s.Limit.RequestsPerUnit}, {h.Remaining, s.Remaining}, {h.Reset, uint64(s.ResetAfter / time.Second)}} {
		b = appendMessage(b, num, func(b []byte) []byte {
			return appendString(appendString(b, 1, header.name), 2, strconv.FormatUint(header.value, 10))
		})
	}
	return b
}

// tightest returns the status for the headers: the last status with an enforced limit that
// denies the request or, without one, the first status with the fewest remaining units. It
// returns nil if no limit was counted.
func tightest(statuses []plan.Status) *plan.Status {
	denies := func(s *plan.Status) bool { return s.OverLimit && s.Mode == limiter.Enforced }
	var least *plan.Status
	for i := range statuses {
		s := &statuses[i]
		if s.Limit != nil && (least == nil || denies(s) || !denies(least) && s.Remaining < least.Remaining) {
			least = s
		}
	}
	return least
}

// appendStatus appends s as a DescriptorStatus. It replaces numbers that do not fit in 32 bits with
// the largest number that does. Only headers show such numbers in full.
func appendStatus(b []byte, s *plan.Status) []byte {
	b = appendUint(b, 1, codeOf(s.OverLimit))
	if l := s.Limit; l != nil {
		b = appendMessage(b, 2, func(b []byte) []byte {
			b = appendUint(b, 1, min(l.RequestsPerUnit, math.MaxUint32))
			b = appendUint(b, 2, uint64(slices.Index(wireUnits[:], l.Unit)))
			b = appendString(b, 3, l.Name)
			if l.UnitMultiplier > 1 {
				b = appendWrapped(b, 4, uint64(l.UnitMultiplier))
			}
			return b
		})
	}
	b = appendUint(b, 3, min(s.Remaining, math.MaxUint32))
	if s.UntilReset > 0 {
		b = appendWrapped(b, 4, uint64(s.UntilReset/time.Second))
	}
	return b
}

func appendUint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func appendString(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

// appendWrapped appends a field with a message that has only field 1, with the value v: a
// UInt32Value, or a Duration of v seconds.
func appendWrapped(b []byte, num protowire.Number, v uint64) []byte {
	return appendMessage(b, num, func(b []byte) []byte { return appendUint(b, 1, v) })
}

// appendMessage appends a field with the message that write appends.
func appendMessage(b []byte, num protowire.Number, write func(b []byte) []byte) []byte {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	start := len(b)
	b = write(b)
	var length [10]byte
	return slices.Insert(b, start, protowire.AppendVarint(length[:0], uint64(len(b)-start))...)
}
