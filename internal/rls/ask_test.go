package rls

import (
	"reflect"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"weir/internal/limiter"
)

func units(n uint64) *uint64 { return &n }

// What Ask sends is what generated code reads.
func TestRequestEncoding(t *testing.T) {
	r := Request{
		Domain:     "api",
		HitsAddend: 7,
		Descriptors: []Descriptor{
			{Entries: []limiter.Entry{{Key: "user", Value: "alice"}, {Key: "path"}}},
			{Entries: []limiter.Entry{{Key: "user", Value: "alice"}}, HitsAddend: units(0)},
			{Entries: []limiter.Entry{{Key: "user", Value: "alice"}}, HitsAddend: units(1 << 63), NegativeHits: true},
			{Override: &Override{RequestsPerUnit: 5, Unit: limiter.Month, UnitMultiplier: 3}},
			{Override: &Override{Unit: limiter.Year}},
		},
	}
	var m ratelimitv3.RateLimitRequest
	parse(t, `domain: "api" hits_addend: 7
		descriptors { entries { key: "user" value: "alice" } entries { key: "path" } }
		descriptors { entries { key: "user" value: "alice" } hits_addend { value: 0 } }
		descriptors { entries { key: "user" value: "alice" } hits_addend { value: 9223372036854775808 } is_negative_hits: true }
		descriptors { limit { requests_per_unit: 5 unit: MONTH unit_multiplier { value: 3 } } }
		descriptors { limit { unit: YEAR } }`, &m)
	var got request
	if err := got.decode(r.append(nil), 100); err != nil {
		t.Fatal(err)
	}
	if want := requestOf(&m); !sameRequest(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAsk(t *testing.T) {
	s := New(options(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {name: calls, unit: minute, requests_per_unit: 2}
  - {key: user, value: free, rate_limit: {unlimited: true}}
  - {key: q, value: !!binary /w==, rate_limit: {unit: day, requests_per_unit: 0}}
`))
	ask := func(d ...Descriptor) Response {
		t.Helper()
		r, err := s.Ask(t.Context(), Request{Domain: "api", Descriptors: d})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	expect := func(got Response, want ...Status) {
		t.Helper()
		if !reflect.DeepEqual(got.Statuses, want) {
			t.Errorf("got  %+v\nwant %+v", got.Statuses, want)
		}
	}
	alice := Descriptor{Entries: []limiter.Entry{{Key: "user", Value: "alice"}}}
	calls := &CurrentLimit{Name: "calls", RequestsPerUnit: 2, Unit: "minute", UnitMultiplier: 1}

	r := ask(alice, Descriptor{Entries: []limiter.Entry{{Key: "host"}}})
	expect(r, Status{Limit: calls, Remaining: 1, UntilReset: 30 * time.Second}, Status{})
	r = ask(alice, alice)
	expect(r, Status{Limit: calls, Remaining: 1, UntilReset: 30 * time.Second}, Status{OverLimit: true, Limit: calls, UntilReset: 30 * time.Second})
	if !r.OverLimit {
		t.Error("a request with a denied descriptor is admitted")
	}
	r = ask(Descriptor{Entries: []limiter.Entry{{Key: "user", Value: "free"}}})
	expect(r, Status{Remaining: 4294967295})
	r = ask(Descriptor{Entries: []limiter.Entry{{Key: "q", Value: "\xff"}}})
	expect(r, Status{OverLimit: true, Limit: &CurrentLimit{Unit: "day", UnitMultiplier: 1}})
	override := &Override{RequestsPerUnit: 5, Unit: limiter.Hour, UnitMultiplier: 2}
	r = ask(Descriptor{Entries: []limiter.Entry{{Key: "q"}}, Override: override})
	if l := r.Statuses[0].Limit; l == nil || *l != (CurrentLimit{RequestsPerUnit: 5, Unit: "hour", UnitMultiplier: 2}) {
		t.Errorf("got the limit %+v", l)
	}

	_, err := s.Ask(t.Context(), Request{Domain: "api"})
	if grpcstatus.Code(err) != codes.InvalidArgument {
		t.Errorf("no descriptors: got %v", err)
	}
	override.Unit = limiter.Week
	_, err = s.Ask(t.Context(), Request{Domain: "api", Descriptors: []Descriptor{{Override: override}}})
	if grpcstatus.Code(err) != codes.InvalidArgument {
		t.Errorf("an override per week: got %v", err)
	}
}
