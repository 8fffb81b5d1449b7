package limiter

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// tenant is a limit of a domain, one of several of its rule.
func tenant(domain string) *Limit {
	return must(Spec{Unit: Minute, RequestsPerUnit: 10, Series: Series{Domain: domain, Key1: "user"}.Name(), Own: &OwnSeries{"user", "minute"}})
}

func hit(t *testing.T, l *Limiter, h Hit) {
	t.Helper()
	if _, err := l.Decide(context.Background(), []Hit{h}, make([]Decision, 1)); err != nil {
		t.Fatal(err)
	}
}

// wantSeries checks the total of every series, and how many there are of limits'
// own.
func wantSeries(t *testing.T, l *Limiter, reg *prometheus.Registry, own int, want map[Series]uint64) {
	t.Helper()
	got := make(map[Series]uint64)
	for s, units := range l.Units() {
		got[s] = units.TotalHits
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n, err := testutil.GatherAndCount(reg, "weir_limit_hits_total"); err != nil || n != 3*own { // its outcomes
		t.Errorf("%d series of limits' own, want %d (error: %v)", n, 3*own, err)
	}
}

func TestSeriesOfRulesThatAreGoneAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		l := New(shared{}, reg)
		a, b := tenant("a"), tenant("b")
		seriesA, seriesB := a.Series.Series(), b.Series.Series()
		alice := Series{Domain: "b", Key1: "user_alice"}
		hit(t, l, Hit{Limit: a, Cost: 1})
		hit(t, l, Hit{Limit: b, Cost: 2})
		hit(t, l, Hit{Limit: b, Cost: 3, Labels: []byte("user_alice\x00")})
		all := map[Series]uint64{seriesA: 1, seriesB: 2, alice: 3}
		wantSeries(t, l, reg, 2, all)

		l.Keep(slices.Values([]*Limit{a, b}))
		time.Sleep(keepIdle)
		wantSeries(t, l, reg, 2, all)

		l.Keep(slices.Values([]*Limit{a}))
		time.Sleep(keepIdle - time.Nanosecond)
		wantSeries(t, l, reg, 2, all)
		time.Sleep(time.Nanosecond)
		wantSeries(t, l, reg, 1, map[Series]uint64{seriesA: 1})
		if n := testutil.CollectAndCount(l.metrics.series, "ratelimit_service_rate_limit_total_hits"); n != 1 {
			t.Errorf("%d series, want 1", n)
		}

		// A limit that was bound before counts on, from 0.
		hit(t, l, Hit{Limit: b, Cost: 4})
		hit(t, l, Hit{Limit: b, Cost: 5, Labels: []byte("user_alice\x00")})
		hit(t, l, Hit{Limit: a, Cost: 1})
		wantSeries(t, l, reg, 2, map[Series]uint64{seriesA: 2, seriesB: 4, alice: 5})
	})
}

func TestSeriesThatAreUsedOrComeBackStay(t *testing.T) {
	tests := []struct {
		name      string
		meanwhile func(t *testing.T, l *Limiter, gone *Limit)
		total     uint64
	}{
		{"used", func(t *testing.T, l *Limiter, gone *Limit) { hit(t, l, Hit{Limit: gone, Cost: 1}) }, 2},
		{"back in the rules", func(_ *testing.T, l *Limiter, _ *Limit) { l.Keep(slices.Values([]*Limit{tenant("a")})) }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := prometheus.NewRegistry()
				l := New(shared{}, reg)
				a := must(Spec{Unit: Minute, RequestsPerUnit: 10, Series: Series{Domain: "a", Key1: "user"}.Name()})
				hit(t, l, Hit{Limit: a, Cost: 1})
				l.Keep(slices.Values([]*Limit{}))
				time.Sleep(keepIdle - time.Nanosecond)
				tt.meanwhile(t, l, a)
				time.Sleep(time.Nanosecond)
				wantSeries(t, l, reg, 0, map[Series]uint64{a.Series.Series(): tt.total})
			})
		})
	}
}

// TestSeriesDoNotPileUp lets tenants come and go.
func TestSeriesDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(shared{}, prometheus.NewRegistry())
		for i := range 100 {
			limit := tenant(string(rune('A' + i)))
			l.Keep(slices.Values([]*Limit{limit}))
			hit(t, l, Hit{Limit: limit, Cost: 1})
			for range l.Units() {
				break
			}
			time.Sleep(keepIdle)
		}
		if n := len(maps.Collect(l.Units())); n > 2 {
			t.Errorf("%d series after 100 tenants, want at most the last two", n)
		}
		if n := len(l.metrics.series.own); n > 2 {
			t.Errorf("%d limits with series of their own after 100 tenants, want at most the last two", n)
		}
	})
}
