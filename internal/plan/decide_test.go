package plan_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/failover"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// usage counts the calls of a Decider.
type usage struct{ hits, failures int }

func (u *usage) Count(hits []limiter.Hit, _ []limiter.Decision) { u.hits += len(hits) }
func (u *usage) CountFailure()                                  { u.failures++ }

// down is a store that always fails.
type down struct{}

func (down) Decide(context.Context, []limiter.Hit, []limiter.Decision) (bool, error) {
	return false, limiter.ErrUnavailable
}

func decider(store limiter.Store, u plan.Usage) *plan.Decider {
	return deciderOf("{key: user, rate_limit: {unit: year, requests_per_unit: 1}}", plan.Options{}, store, u)
}

func deciderOf(rules string, opts plan.Options, store limiter.Store, u plan.Usage) *plan.Decider {
	tree, err := descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte("{domain: api, descriptors: [" + rules + "]}")}}, descriptors.Options{})
	if err != nil {
		panic(err)
	}
	return &plan.Decider{Planner: plan.New(opts), Rules: func() *descriptors.Tree { return tree }, Store: store, Usage: u}
}

func asks(keys ...string) *plan.Request {
	r := &plan.Request{Domain: "api"}
	for _, key := range keys {
		r.Descriptors = append(r.Descriptors, plan.Descriptor{Entries: []limiter.Entry{{Key: key, Value: "alice"}}})
	}
	return r
}

func ExampleDecider() {
	d := decider(memory.New(memory.Options{}), new(usage))
	for range 2 {
		var result plan.Result
		err := d.Decide(context.Background(), asks("user"), &result)
		fmt.Println(result.Denied, result.Statuses[0].Remaining, err)
	}
	// Output:
	// false 0 <nil>
	// true 0 <nil>
}

func TestStoreCallsAndUsage(t *testing.T) {
	for _, tc := range []struct {
		name     string
		request  *plan.Request
		failover *failover.Failover
		want     usage
		err      error
	}{
		{"no hits need no store", asks("nobody"), nil, usage{}, nil},
		{"a store that fails", asks("user", "nobody"), nil, usage{failures: 1}, limiter.ErrUnavailable},
		{"a failure mode decides", asks("user", "nobody"), failover.New(limiter.FailureAllow, nil, nil), usage{hits: 1}, nil},
	} {
		var got usage
		d := decider(down{}, &got)
		d.Failover = tc.failover
		var result plan.Result
		err := d.Decide(t.Context(), tc.request, &result)
		if !errors.Is(err, tc.err) || got != tc.want || result.Plan.Unmatched != 1 {
			t.Errorf("%s: got %+v, %d unmatched, error %v, want %+v, 1, %v", tc.name, got, result.Plan.Unmatched, err, tc.want, tc.err)
		}
	}
}

func TestUndecidedRequests(t *testing.T) {
	d := decider(down{}, new(usage))
	bad := d.Decide(t.Context(), new(plan.Request), new(plan.Result))
	d.Rules = func() *descriptors.Tree { return nil }
	if err := d.Decide(t.Context(), asks("user"), new(plan.Result)); !errors.As(bad, new(plan.RequestError)) || !errors.Is(err, plan.ErrNoRules) {
		t.Errorf("got %v, want what is wrong with the request; and %v, want %v", bad, err, plan.ErrNoRules)
	}
}

// A request that does not name its hold exceeds the concurrency limit, with the mode and metrics
// of that limit, even if the store fails. Other limits count the request as usual.
func TestUnnamedHolds(t *testing.T) {
	const flight, rate = "{name: flight, unit: minute, requests_per_unit: 3, algorithm: concurrency", "{name: rate, unit: minute, requests_per_unit: 9, failure_mode: allow"
	for _, tc := range []struct {
		limits, status  string // the status begins with the name of a limit
		opts            plan.Options
		denied, wouldBe bool
	}{
		{limits: flight + "}, " + rate + "}", status: "flight true 0", denied: true},
		{limits: flight + ", failure_mode: allow}, " + rate + "}", status: "flight true 0", denied: true},
		{limits: flight + ", replaces: [{name: rate}]}, " + rate + "}", status: "flight true 0", denied: true},
		{limits: flight + "}, " + rate + ", replaces: [{name: flight}]}", status: "rate false"},
		{limits: flight + ", shadow_mode: true}, " + rate + "}", status: "rate false"},
		{limits: flight + "}, " + rate + "}", status: "flight true 0", opts: plan.Options{ShadowMode: true}, wouldBe: true},
		{limits: flight + "}, " + rate + "}", status: "flight true 0", opts: plan.Options{QuotaMode: true}, denied: true},
	} {
		for _, store := range []limiter.Store{memory.New(memory.Options{}), down{}} {
			for _, entries := range [][]limiter.Entry{{{Key: "user", Value: "alice"}}, {{Key: "request_id"}, {Key: "user", Value: "alice"}}} {
				d := deciderOf("{key: user, rate_limit: ["+tc.limits+"]}", tc.opts, store, new(usage))
				d.Failover = failover.New(limiter.FailureError, nil, nil)
				r := &plan.Request{Domain: "api", Descriptors: []plan.Descriptor{{Entries: entries}}}
				var res plan.Result
				testenv.OK(t, d.Decide(t.Context(), r, &res))
				s := res.Statuses[0]
				got := fmt.Sprint(s.Limit.Name, " ", s.OverLimit, " ", s.Remaining)
				if !strings.HasPrefix(got, tc.status) || res.Denied != tc.denied || res.WouldBeDenied != tc.wouldBe || res.Plan.Invalid == nil {
					t.Errorf("%q of %s on %T: got %s, denied %t, invalid: %v", entries, tc.limits, store, got, res.Denied, res.Plan.Invalid)
				}
				if i := slices.IndexFunc(res.Decisions, func(d limiter.Decision) bool { return d.Over }); i >= 0 && res.Plan.Hits[i].Limit.Series.Labels().Limit != "flight" {
					t.Errorf("%s: metrics count %+v", tc.limits, res.Plan.Hits[i].Limit.Series.Labels())
				}
			}
		}
	}
}
