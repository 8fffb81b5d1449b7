package telemetry

import (
	"log/slog"
	"maps"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// now is in the window of the counters that ask uses.
const now = 1_767_323_045_000_000

// user has the labels of most limits.
var user = limiter.LabelSet{Domain: "api", Key1: "user"}

// perMinute returns a limit of size units per minute with these labels.
func perMinute(size uint64, labels limiter.LabelSet) *limiter.Limit {
	return storetest.Must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: size, Series: labels.Series()})
}

// newUsage returns a Usage with the defaults of the server.
func newUsage() (*Usage, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	return New(reg, slog.New(slog.DiscardHandler), 0.8), reg
}

// ask decides and counts hits, with one counter per limit, each with used units.
func (u *Usage) ask(used int64, hits ...limiter.Hit) {
	counters, states, out := map[*limiter.Limit]*limiter.State{}, make([]*limiter.State, len(hits)), make([]limiter.Decision, len(hits))
	for i, h := range hits {
		if counters[h.Limit] == nil {
			counters[h.Limit] = &limiter.State{At: now / 60_000_000, Used: used}
		}
		states[i] = counters[h.Limit]
	}
	limiter.Decide(hits, states, nil, now, out)
	u.Count(hits, out)
}

// counted returns the sums of the series user after hits.
func counted(used int64, hits ...limiter.Hit) Sums {
	u, _ := newUsage()
	u.ask(used, hits...)
	return maps.Collect(u.Sums())[user]
}

// TestDocumentedUnits checks the table of hits and their sums in docs/metrics.md.
func TestDocumentedUnits(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../docs/metrics.md"))(t)
	rows := regexp.MustCompile(`(?m)^\|(\d+)\|(\d+)\|(\d+)\|(yes|no|yes, although denied)\|(\d+)\|(\d+)\|(\d+)\|(\d+)\|$`).FindAllStringSubmatch(string(text), -1)
	if len(rows) != 4 {
		t.Fatalf("docs/metrics.md has %d rows of units, want 4", len(rows))
	}
	for _, row := range rows {
		number := func(column int) uint64 {
			return testenv.Must(strconv.ParseUint(row[column], 10, 32))(t)
		}
		hit := limiter.Hit{Limit: perMinute(number(1), user), Cost: number(3), Always: row[4] == "yes, although denied"}
		want := Sums{TotalHits: number(5), WithinLimit: number(6), NearLimit: number(7), OverLimit: number(8)}
		testenv.Equal(t, counted(int64(number(2)), hit), want, "%s", row[0])
	}
}

// TestMetricsCountUnitsOfCost has cases that the reference does not count, or that depend on modes
// of Weir. The expected sums are those of the series user.
func TestMetricsCountUnitsOfCost(t *testing.T) {
	enforced, shadow, three := perMinute(10, user), perMinute(10, user), perMinute(3, user)
	shadow.Mode = limiter.Shadow
	full := limiter.Hit{Limit: perMinute(0, limiter.LabelSet{Domain: "api", Key1: "other"}), Cost: 1}
	for _, tc := range []struct {
		name string
		used int64
		hits []limiter.Hit
		want Sums
	}{
		{"denied by another limit", 0, []limiter.Hit{{Limit: enforced, Cost: 3}, full}, Sums{TotalHits: 3}},
		{"shadow", 10, []limiter.Hit{{Limit: shadow, Cost: 3}}, Sums{TotalHits: 3, OverLimit: 3, ShadowMode: 3}},
		{"shadow, partly over", 8, []limiter.Hit{{Limit: shadow, Cost: 3}}, Sums{TotalHits: 3, OverLimit: 3, ShadowMode: 3}},
		{"shadow, partly over, charged all the same", 8, []limiter.Hit{{Limit: shadow, Cost: 3, Always: true}}, Sums{TotalHits: 3, OverLimit: 1, NearLimit: 2, ShadowMode: 1}},
		{"peek", 10, []limiter.Hit{{Limit: enforced}}, Sums{}},
		{"refund", 10, []limiter.Hit{{Limit: enforced, Cost: 3, Refund: true}}, Sums{}},
		{"huge", 0, []limiter.Hit{{Limit: enforced, Cost: 1<<64 - 1}}, Sums{TotalHits: 1 << 52, OverLimit: 1 << 52}},
		// The second hit exceeds the limit, although neither hit is charged and the counter has room.
		{"an earlier hit left no room", 0, []limiter.Hit{{Limit: three, Cost: 2}, {Limit: three, Cost: 2}}, Sums{TotalHits: 4, OverLimit: 2}},
	} {
		testenv.Equal(t, counted(tc.used, tc.hits...), tc.want, "%s", tc.name)
	}
	u, _ := newUsage()
	u.Count([]limiter.Hit{{Limit: enforced, Cost: 3}}, []limiter.Decision{{Over: true, Remembered: true, Used: 10}})
	want := Sums{TotalHits: 3, OverLimit: 3, OverLimitWithLocalCache: 3}
	testenv.Equal(t, maps.Collect(u.Sums())[enforced.Series.Labels()], want, "remembered")
}

// TestMetricsAreThoseOfTheReference compares sums with envoyproxy/ratelimit's for a hit that adds
// cost to a counter at used. Units above 80 % of the limit, rounded down, are near the limit. A
// denied hit that is not charged raises nothing, and all its units are over the limit.
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
		for _, always := range []bool{false, true} { // with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, and without it
			want := Sums{TotalHits: tc.cost, OverLimit: tc.over, NearLimit: tc.near, WithinLimit: tc.within}
			if !always && tc.over > 0 {
				want[OverLimit], want[NearLimit] = tc.cost, 0
			}
			testenv.Equal(t, counted(tc.used, limiter.Hit{Limit: perMinute(tc.limit, user), Cost: tc.cost, Always: always}), want, "%+v, always %t", tc, always)
		}
	}
}

func TestNearLimitRatio(t *testing.T) {
	for _, tc := range []struct {
		ratio float32
		limit uint64
		near  uint64 // of a hit that uses up the limit
	}{
		{0, 10, 10},
		{0.5, 10, 5},
		{0.29, 100, 71},
		{0.8, 4_000_000_000, 800_000_000},
		{1, 10, 0},
		{0.5, 1 << 50, 1 << 49},
	} {
		l := New(prometheus.NewRegistry(), nil, tc.ratio)
		limit := perMinute(tc.limit, user)
		l.ask(0, limiter.Hit{Limit: limit, Cost: tc.limit})
		testenv.Equal(t, maps.Collect(l.Sums())[limit.Series.Labels()][NearLimit], tc.near, "units near %v of %d", tc.ratio, tc.limit)
	}
}
