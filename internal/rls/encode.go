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

// Headers names the headers that show the limit closest to its end. The
// zero value is none.
type Headers struct {
	Limit     string // amount per period
	Remaining string // what is left of it
	Reset     string // seconds until the whole amount is free again
}

// appendResponse writes a RateLimitResponse. Fields with their default value are
// left out, as generated code does.
func (s *Service) appendResponse(b []byte, r *plan.Request, result *plan.Result) []byte {
	b = appendUint(b, 1, codeOf(result.Denied))
	for i := range result.Statuses {
		b = appendMessage(b, 2, func(b []byte) []byte { return appendStatus(b, &result.Statuses[i]) })
	}
	if of := tightest(result.Statuses); of != nil {
		b = s.opts.ResponseHeaders.append(b, 3, of)
		b = s.opts.RequestHeaders.append(b, 4, of)
	}
	if s.opts.DynamicMetadata {
		// The hits are counted by now: rather an answer without metadata than none.
		if said, err := metadata(r, result.Statuses); err != nil {
			s.opts.Logger.Debug("no dynamic metadata", "err", err)
		} else {
			b = protowire.AppendTag(b, 6, protowire.BytesType)
			b = protowire.AppendBytes(b, said)
		}
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

// append writes the headers about s as HeaderValues of field num.
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

// tightest returns the status that headers are about: the last one that denies
// the request by itself, which a quota does not, else the first with the least left. It
// is nil if no limit was counted.
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

// appendStatus writes s as a DescriptorStatus. Of numbers that do not fit in 32 bits it says
// the largest that does; headers say more.
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

// appendWrapped writes a message whose only field is field 1 with the value v:
// a UInt32Value, or a Duration of v seconds.
func appendWrapped(b []byte, num protowire.Number, v uint64) []byte {
	return appendMessage(b, num, func(b []byte) []byte { return appendUint(b, 1, v) })
}

// appendMessage writes a field that is the message that write appends.
func appendMessage(b []byte, num protowire.Number, write func(b []byte) []byte) []byte {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	start := len(b)
	b = write(b)
	var length [10]byte
	return slices.Insert(b, start, protowire.AppendVarint(length[:0], uint64(len(b)-start))...)
}
