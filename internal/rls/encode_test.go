package rls

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// responseOf is what the encoding of r must say.
func responseOf(r *plan.Result, o *Options) *ratelimitv3.RateLimitResponse {
	m := &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_Code(codeOf(r.Denied))}
	for _, s := range r.Statuses {
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
	if s := tightest(r.Statuses); s != nil {
		headers := func(h Headers) []*corev3.HeaderValue {
			if h == (Headers{}) {
				return nil
			}
			return []*corev3.HeaderValue{
				{Key: h.Limit, Value: fmt.Sprint(s.Limit.RequestsPerUnit)},
				{Key: h.Remaining, Value: fmt.Sprint(s.Remaining)},
				{Key: h.Reset, Value: fmt.Sprint(s.ResetAfter.Seconds())},
			}
		}
		m.ResponseHeadersToAdd, m.RequestHeadersToAdd = headers(o.ResponseHeaders), headers(o.RequestHeaders)
	}
	return m
}

// randomResult draws a result whose parts are present or not, short or long.
func randomResult(r *rand.Rand) (*plan.Result, Options) {
	number := func() uint64 { return r.Uint64() >> r.IntN(64) }
	text := func() string { return strings.Repeat("x", r.IntN(2)*r.IntN(300)) }
	result := &plan.Result{Denied: r.IntN(2) == 0}
	for range r.IntN(5) {
		s := plan.Status{
			OverLimit: r.IntN(2) == 0, Remaining: number(),
			UntilReset: time.Duration(number()>>31) * time.Second, ResetAfter: time.Duration(r.IntN(1e6)) * time.Second,
		}
		if r.IntN(4) > 0 {
			s.Limit = &limiter.Limit{Spec: limiter.Spec{
				Name:            text(),
				RequestsPerUnit: number(),
				Unit:            limiter.Unit(1 + r.IntN(int(limiter.Year))),
				UnitMultiplier:  uint32(number()),
			}}
		}
		result.Statuses = append(result.Statuses, s)
	}
	return result, Options{ResponseHeaders: Headers{text(), text(), text()}, RequestHeaders: Headers{text(), text(), text()}}
}

func FuzzEncode(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		result, opts := randomResult(rand.New(rand.NewPCG(seed, 0)))
		s := &Service{opts: opts}
		var got ratelimitv3.RateLimitResponse
		testenv.OK(t, proto.Unmarshal(s.appendResponse(nil, nil, result), &got))
		if want := responseOf(result, &opts); !proto.Equal(&got, want) {
			t.Errorf("got %v, want %v", &got, want)
		}
	})
}
