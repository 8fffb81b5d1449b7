package telemetry

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// sumsOf are the units of one series.
func sumsOf(l onStore, s limiter.LabelSet) Sums {
	for series, units := range l.Sums() {
		if series == s {
			return units
		}
	}
	return Sums{}
}

// The table in docs/metrics.md says what hits count as.
func TestDocumentedUnits(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\|(\d+)\|(\d+)\|(\d+)\|(yes|no|yes, although denied)\|(\d+)\|(\d+)\|(\d+)\|(\d+)\|$`).FindAllStringSubmatch(string(text), -1)
	if len(rows) != 4 {
		t.Fatalf("docs/metrics.md has %d rows of units, want 4", len(rows))
	}
	for _, row := range rows {
		number := func(column int) uint64 {
			n, err := strconv.ParseUint(row[column], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		series := limiter.LabelSet{Domain: "api", Key1: "user"}
		limit := must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: number(1), Series: series.Series()})
		const now = 1_767_323_045_000_000
		l := newDefault(fixed{state: limiter.State{At: now / 60_000_000, Used: int64(number(2))}, now: now}, prometheus.NewRegistry())
		hit := limiter.Hit{Limit: limit, Cost: number(3), Always: row[4] == "yes, although denied"}
		l.ask(hit)
		want := Sums{TotalHits: number(5), WithinLimit: number(6), NearLimit: number(7), OverLimit: number(8)}
		if got := sumsOf(l, series); got != want {
			t.Errorf("%s: got %+v, want %+v", row[0], got, want)
		}
	}
}

func TestMetricsCountUnitsOfCost(t *testing.T) {
	user := limiter.LabelSet{Domain: "api", Key1: "user"}
	ten := func(mode limiter.Mode) *limiter.Limit {
		return must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: 10, Mode: mode, Series: user.Series()})
	}
	full := limiter.Hit{Limit: must(limiter.Spec{Unit: limiter.Minute, Series: limiter.LabelSet{Domain: "api", Key1: "other"}.Series()}), Cost: 1, Key: []byte("full")}
	for _, tc := range []struct {
		name string
		used int64
		hits []limiter.Hit
		want Sums // of the first hit
	}{
		{"far below", 0, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 3}}, Sums{TotalHits: 3, WithinLimit: 3}},
		{"up to 80 %", 5, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 3}}, Sums{TotalHits: 3, WithinLimit: 3}},
		{"across 80 %", 7, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 3}}, Sums{TotalHits: 3, NearLimit: 2, WithinLimit: 3}},
		{"above 80 %", 8, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 2}}, Sums{TotalHits: 2, NearLimit: 2, WithinLimit: 2}},
		{"over", 10, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 3}}, Sums{TotalHits: 3, OverLimit: 3}},
		{"partly over", 9, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 3}}, Sums{TotalHits: 3, OverLimit: 3}},
		{"partly over, charged all the same", 9, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 3, Always: true}}, Sums{TotalHits: 3, OverLimit: 2, NearLimit: 1}},
		{"over, charged all the same", 7, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 5, Always: true}}, Sums{TotalHits: 5, OverLimit: 2, NearLimit: 2}},
		{"far over, charged all the same", 90, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 5, Always: true}}, Sums{TotalHits: 5, OverLimit: 5}},
		{"denied by another limit", 0, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 3}, full}, Sums{TotalHits: 3}},
		{"shadow", 10, []limiter.Hit{{Limit: ten(limiter.Shadow), Cost: 3}}, Sums{TotalHits: 3, OverLimit: 3, ShadowMode: 3}},
		{"shadow, partly over", 8, []limiter.Hit{{Limit: ten(limiter.Shadow), Cost: 3}}, Sums{TotalHits: 3, OverLimit: 3, ShadowMode: 3}},
		{"shadow, partly over, charged all the same", 8, []limiter.Hit{{Limit: ten(limiter.Shadow), Cost: 3, Always: true}}, Sums{TotalHits: 3, OverLimit: 1, NearLimit: 2, ShadowMode: 1}},
		{"peek", 10, []limiter.Hit{{Limit: ten(limiter.Enforced)}}, Sums{}},
		{"refund", 10, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 3, Refund: true}}, Sums{}},
		{"huge", 0, []limiter.Hit{{Limit: ten(limiter.Enforced), Cost: 1<<64 - 1}}, Sums{TotalHits: 1 << 52, OverLimit: 1 << 52}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const now = 1_767_323_045_000_000
			l := newDefault(fixed{state: limiter.State{At: now / 60_000_000, Used: tc.used}, now: now}, prometheus.NewRegistry())
			l.ask(tc.hits...)
			if got := sumsOf(l, user); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// Of two hits on one counter the second is over although the counter, which
// holds neither after all, has room for it.
func TestMetricsOfAHitThatAnEarlierOneLeftNoRoomFor(t *testing.T) {
	limit := must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: 3, Series: limiter.LabelSet{Domain: "api", Key1: "user"}.Series()})
	l := newDefault(shared{}, prometheus.NewRegistry())
	if !l.ask(limiter.Hit{Limit: limit, Cost: 2}, limiter.Hit{Limit: limit, Cost: 2}) {
		t.Fatal("admitted")
	}
	if got, want := sumsOf(l, limit.Series.Labels()), (Sums{TotalHits: 4, OverLimit: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// shared is a store with one counter for all hits.
type shared struct{}

func (shared) Decide(_ context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	states, counter := make([]*limiter.State, len(hits)), new(limiter.State)
	for i := range states {
		states[i] = counter
	}
	return limiter.Decide(hits, states, nil, 0, out), nil
}

// TestMetricsAreThoseOfTheReference compares with what envoyproxy/ratelimit
// counts for a counter that a hit raises from used by cost. Its near limit is
// the part above 80 % of the limit, rounded down. A hit that is denied and not
// charged raises nothing: all of it is over.
func TestMetricsAreThoseOfTheReference(t *testing.T) {
	for _, tc := range []struct {
		limit      uint64
		used       int64
		cost       uint64
		over, near uint64
		within     uint64
	}{
		{limit: 15, used: 10, cost: 1, within: 1},
		{limit: 15, used: 12, cost: 1, near: 1, within: 1},
		{limit: 15, used: 15, cost: 1, over: 1},
		{limit: 20, used: 2, cost: 3, within: 3},
		{limit: 8, used: 5, cost: 2, near: 1, within: 2},
		{limit: 20, used: 16, cost: 3, near: 3, within: 3},
		{limit: 20, used: 19, cost: 3, over: 2, near: 1},
		{limit: 20, used: 15, cost: 7, over: 2, near: 4},
		{limit: 20, used: 20, cost: 3, over: 3},
		{limit: 10, used: 12, cost: 3, over: 3},
		{limit: 0, used: 0, cost: 2, over: 2},
		{limit: 1, used: 0, cost: 1, near: 1, within: 1},
	} {
		for _, always := range []bool{false, true} { // as with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, and without
			const now = 1_767_323_045_000_000
			limit := must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: tc.limit, Series: limiter.LabelSet{Domain: "api", Key1: "user"}.Series()})
			l := newDefault(fixed{state: limiter.State{At: now / 60_000_000, Used: tc.used}, now: now}, prometheus.NewRegistry())
			l.ask(limiter.Hit{Limit: limit, Cost: tc.cost, Always: always})
			want := Sums{TotalHits: tc.cost, OverLimit: tc.over, NearLimit: tc.near, WithinLimit: tc.within}
			if !always && tc.over > 0 {
				want[OverLimit], want[NearLimit] = tc.cost, 0
			}
			if got := sumsOf(l, limit.Series.Labels()); got != want {
				t.Errorf("%+v, always %t: got %+v", tc, always, got)
			}
		}
	}
}

func TestNearLimitRatio(t *testing.T) {
	for _, tc := range []struct {
		ratio float32
		limit uint64
		near  uint64 // of a hit that takes all
	}{
		{0, 10, 10},
		{0.5, 10, 5},
		{0.29, 100, 71},
		{0.8, 4_000_000_000, 800_000_000},
		{1, 10, 0},
		{0.5, 1 << 50, 1 << 49},
	} {
		l := onStore{New(Options{Registerer: prometheus.NewRegistry(), NearLimitRatio: tc.ratio}), shared{}}
		limit := must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: tc.limit, Series: limiter.LabelSet{Domain: "api", Key1: "user"}.Series()})
		l.ask(limiter.Hit{Limit: limit, Cost: tc.limit})
		if got := sumsOf(l, limit.Series.Labels())[NearLimit]; got != tc.near {
			t.Errorf("%v of %d: got %d units near, want %d", tc.ratio, tc.limit, got, tc.near)
		}
	}
}

// remembering is a store that knows of every hit that it is over.
type remembering struct{}

func (remembering) Decide(_ context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	for i := range hits {
		out[i] = limiter.Decision{Over: true, Remembered: true, Used: int64(hits[i].Limit.Size())}
	}
	return true, nil
}

func TestMetricsTellWhatWasRemembered(t *testing.T) {
	limit := must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: 10, Series: limiter.LabelSet{Domain: "api", Key1: "user"}.Series()})
	l := newDefault(remembering{}, prometheus.NewRegistry())
	l.ask(limiter.Hit{Limit: limit, Cost: 3})
	if got, want := sumsOf(l, limit.Series.Labels()), (Sums{TotalHits: 3, OverLimit: 3, OverLimitWithLocalCache: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
