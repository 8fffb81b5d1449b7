package rls

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// responseOf is what the encoding of a must say.
func responseOf(t testing.TB, a *answer) *ratelimitv3.RateLimitResponse {
	m := &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_Code(codeOf(a.overLimit))}
	for _, s := range a.statuses {
		ms := &ratelimitv3.RateLimitResponse_DescriptorStatus{
			Code:           ratelimitv3.RateLimitResponse_Code(codeOf(s.OverLimit)),
			LimitRemaining: uint32(min(s.Remaining, math.MaxUint32)),
		}
		if l := s.Limit; l != nil {
			unit := ratelimitv3.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(l.Unit.String())]
			ms.CurrentLimit = &ratelimitv3.RateLimitResponse_RateLimit{
				Name:            l.Name,
				RequestsPerUnit: uint32(min(l.RequestsPerUnit, math.MaxUint32)),
				Unit:            ratelimitv3.RateLimitResponse_RateLimit_Unit(unit),
			}
			if l.UnitMultiplier > 1 {
				ms.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(l.UnitMultiplier)
			}
		}
		if s.UntilReset > 0 {
			ms.DurationUntilReset = durationpb.New(s.UntilReset)
		}
		m.Statuses = append(m.Statuses, ms)
	}
	for _, h := range a.responseHeaders {
		m.ResponseHeadersToAdd = append(m.ResponseHeadersToAdd, &corev3.HeaderValue{Key: h.key, Value: h.value})
	}
	for _, h := range a.requestHeaders {
		m.RequestHeadersToAdd = append(m.RequestHeadersToAdd, &corev3.HeaderValue{Key: h.key, Value: h.value})
	}
	if a.metadata != nil {
		m.DynamicMetadata = new(structpb.Struct)
		if err := proto.Unmarshal(a.metadata, m.DynamicMetadata); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// randomAnswer draws an answer whose parts are present or not, short or long.
func randomAnswer(t testing.TB, r *rand.Rand) *answer {
	number := func() uint64 { return r.Uint64() >> r.IntN(64) }
	text := func() string { return strings.Repeat("x", r.IntN(2)*r.IntN(300)) }
	a := &answer{overLimit: r.IntN(2) == 0}
	for range r.IntN(5) {
		s := plan.Status{OverLimit: r.IntN(2) == 0, Remaining: number(), UntilReset: time.Duration(number()>>31) * time.Second}
		if r.IntN(4) > 0 {
			s.Limit = &limiter.Limit{Spec: limiter.Spec{
				Name:            text(),
				RequestsPerUnit: number(),
				Unit:            limiter.Unit(1 + r.IntN(int(limiter.Year))),
				UnitMultiplier:  uint32(number()),
			}}
		}
		a.statuses = append(a.statuses, s)
	}
	for range r.IntN(4) {
		a.responseHeaders = append(a.responseHeaders, header{text(), text()})
	}
	for range r.IntN(4) {
		a.requestHeaders = append(a.requestHeaders, header{text(), text()})
	}
	if r.IntN(2) == 0 {
		a.metadata = marshal(t, &structpb.Struct{Fields: map[string]*structpb.Value{"domain": structpb.NewStringValue(text())}})
	}
	return a
}

func FuzzEncode(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		a := randomAnswer(t, rand.New(rand.NewPCG(seed, 0)))
		var got ratelimitv3.RateLimitResponse
		if err := proto.Unmarshal(a.append(nil), &got); err != nil {
			t.Fatal(err)
		}
		if want := responseOf(t, a); !proto.Equal(&got, want) {
			t.Errorf("got %v, want %v", &got, want)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	l := &limiter.Limit{Spec: limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Minute}}
	s := plan.Status{Limit: l, Remaining: 99, UntilReset: 30 * time.Second}
	a := answer{statuses: []plan.Status{s, s, s}}
	var wire []byte
	b.ReportAllocs()
	for b.Loop() {
		wire = a.append(wire[:0])
	}
}
