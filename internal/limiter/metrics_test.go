package limiter

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetricsCountUnitsOfCost(t *testing.T) {
	type units struct{ total, over, near, within, shadow float64 }
	ten := func(mode Mode) *Limit {
		return must(Spec{Unit: Minute, RequestsPerUnit: 10, Mode: mode, Series: Series{"api", "user", ""}})
	}
	full := Hit{Limit: must(Spec{Unit: Minute, Series: Series{"api", "other", ""}}), Cost: 1}
	for _, tc := range []struct {
		name string
		used int64
		hits []Hit
		want units // of the first hit
	}{
		{"far below", 0, []Hit{{Limit: ten(Enforced), Cost: 3}}, units{total: 3, within: 3}},
		{"up to 80 %", 5, []Hit{{Limit: ten(Enforced), Cost: 3}}, units{total: 3, within: 3}},
		{"across 80 %", 7, []Hit{{Limit: ten(Enforced), Cost: 3}}, units{total: 3, near: 2, within: 3}},
		{"above 80 %", 8, []Hit{{Limit: ten(Enforced), Cost: 2}}, units{total: 2, near: 2, within: 2}},
		{"over", 9, []Hit{{Limit: ten(Enforced), Cost: 3}}, units{total: 3, over: 3}},
		{"over, charged all the same", 7, []Hit{{Limit: ten(Enforced), Cost: 5, Always: true}}, units{total: 5, over: 2, near: 2}},
		{"far over, charged all the same", 90, []Hit{{Limit: ten(Enforced), Cost: 5, Always: true}}, units{total: 5, over: 5}},
		{"denied by another limit", 0, []Hit{{Limit: ten(Enforced), Cost: 3}, full}, units{total: 3}},
		{"shadow", 10, []Hit{{Limit: ten(Shadow), Cost: 3}}, units{total: 3, over: 3, shadow: 3}},
		{"peek", 10, []Hit{{Limit: ten(Enforced)}}, units{}},
		{"refund", 10, []Hit{{Limit: ten(Enforced), Cost: 3, Refund: true}}, units{}},
		{"huge", 0, []Hit{{Limit: ten(Enforced), Cost: 1<<64 - 1}}, units{total: 1 << 52, over: 1 << 52}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const now = 1_767_323_045_000_000
			l := New(fixed{state: State{At: now / 60_000_000, Used: tc.used}, now: now}, prometheus.NewRegistry())
			if _, err := l.Decide(context.Background(), tc.hits, make([]Decision, len(tc.hits))); err != nil {
				t.Fatal(err)
			}
			m := l.metrics
			value := func(v *prometheus.CounterVec) float64 {
				return testutil.ToFloat64(v.WithLabelValues("api", "user", ""))
			}
			got := units{value(m.total), value(m.over), value(m.near), value(m.within), value(m.shadow)}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestLimitsOfOneSeriesShareItAndFollowTheirLimiter(t *testing.T) {
	a := must(Spec{Unit: Minute, RequestsPerUnit: 10, Series: Series{"api", "user", ""}})
	b := must(Spec{Unit: Minute, RequestsPerUnit: 10, Series: Series{"api", "user", ""}})
	for range 2 {
		l := New(fixed{}, prometheus.NewRegistry())
		for _, limit := range []*Limit{a, b, a} {
			if _, err := l.Decide(context.Background(), []Hit{{Limit: limit, Cost: 1}}, make([]Decision, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if n := testutil.ToFloat64(l.metrics.total.WithLabelValues("api", "user", "")); n != 3 {
			t.Errorf("total_hits is %v, want 3", n)
		}
	}
}
