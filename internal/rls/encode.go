package rls

import (
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// answer is a RateLimitResponse.
type answer struct {
	overLimit       bool
	statuses        []plan.Status // one for each descriptor, in order
	responseHeaders []header
	requestHeaders  []header
	metadata        []byte // a google.protobuf.Struct, encoded, nil for none
}

// codeOf returns the RateLimitResponse.Code.
func codeOf(overLimit bool) uint64 {
	if overLimit {
		return 2
	}
	return 1
}

// append writes a as a RateLimitResponse. Fields with their default value are
// left out, as generated code does.
func (a *answer) append(b []byte) []byte {
	b = appendUint(b, 1, codeOf(a.overLimit))
	for i := range a.statuses {
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		start := len(b)
		b = appendStatus(b, &a.statuses[i])
		b = prefixLength(b, start)
	}
	b = appendHeaders(b, 3, a.responseHeaders)
	b = appendHeaders(b, 4, a.requestHeaders)
	if a.metadata != nil {
		b = protowire.AppendTag(b, 6, protowire.BytesType)
		b = protowire.AppendBytes(b, a.metadata)
	}
	return b
}

// appendHeaders writes headers as HeaderValues of field num.
func appendHeaders(b []byte, num protowire.Number, headers []header) []byte {
	for _, h := range headers {
		b = protowire.AppendTag(b, num, protowire.BytesType)
		start := len(b)
		b = appendString(b, 1, h.key)
		b = appendString(b, 2, h.value)
		b = prefixLength(b, start)
	}
	return b
}

// appendStatus writes s as a DescriptorStatus.
func appendStatus(b []byte, s *plan.Status) []byte {
	b = appendUint(b, 1, codeOf(s.OverLimit))
	if s.Limit != nil {
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		start := len(b)
		b = appendLimit(b, s.Limit)
		b = prefixLength(b, start)
	}
	b = appendUint(b, 3, saturated(s.Remaining))
	if s.UntilReset > 0 {
		b = appendWrapped(b, 4, uint64(s.UntilReset/time.Second))
	}
	return b
}

// wireUnits are the numbers of RateLimitResponse.RateLimit.Unit.
var wireUnits = [...]uint64{
	limiter.Second: 1,
	limiter.Minute: 2,
	limiter.Hour:   3,
	limiter.Day:    4,
	limiter.Month:  5,
	limiter.Year:   6,
	limiter.Week:   7,
}

// appendLimit writes l as a RateLimitResponse.RateLimit.
func appendLimit(b []byte, l *limiter.Limit) []byte {
	b = appendUint(b, 1, saturated(l.RequestsPerUnit))
	b = appendUint(b, 2, wireUnits[l.Unit])
	b = appendString(b, 3, l.Name)
	if l.UnitMultiplier > 1 {
		b = appendWrapped(b, 4, uint64(l.UnitMultiplier))
	}
	return b
}

// saturated returns v, or the largest that a field of 32 bits can say. Headers say more.
func saturated(v uint64) uint64 { return min(v, math.MaxUint32) }

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
	b = protowire.AppendTag(b, num, protowire.BytesType)
	start := len(b)
	return prefixLength(appendUint(b, 1, v), start)
}

// prefixLength inserts before b[start:], which is a message, its length.
func prefixLength(b []byte, start int) []byte {
	var length [10]byte
	return slices.Insert(b, start, protowire.AppendVarint(length[:0], uint64(len(b)-start))...)
}
