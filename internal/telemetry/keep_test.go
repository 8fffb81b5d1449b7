package telemetry

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
)

// tenant is a limit of a domain, one of several of its rule.
func tenant(domain string) *limiter.Limit {
	return perMinute(limiter.LabelSet{Domain: domain, Key1: "user", Rule: "user", Limit: "minute"})
}

// wantSeries checks the total of every series, and how many there are of limits'
// own.
func wantSeries(t *testing.T, l *Usage, reg *prometheus.Registry, own int, want map[limiter.LabelSet]uint64) {
	t.Helper()
	got := make(map[limiter.LabelSet]uint64)
	for s, units := range l.Sums() {
		got[s] = units[TotalHits]
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
		l, reg := newUsage()
		a, b := tenant("a"), tenant("b")
		seriesA, seriesB := a.Series.Levels().Labels(), b.Series.Levels().Labels()
		alice := limiter.LabelSet{Domain: "b", Key1: "user_alice"}
		l.ask(0, limiter.Hit{Limit: a, Cost: 1})
		l.ask(0, limiter.Hit{Limit: b, Cost: 2})
		l.ask(0, limiter.Hit{Limit: b, Cost: 3, Labels: []byte("user_alice\x00")})
		all := map[limiter.LabelSet]uint64{seriesA: 1, seriesB: 2, alice: 3}
		wantSeries(t, l, reg, 2, all)

		l.Keep(slices.Values([]*limiter.Limit{a, b}))
		time.Sleep(keepIdle)
		wantSeries(t, l, reg, 2, all)

		l.Keep(slices.Values([]*limiter.Limit{a}))
		time.Sleep(keepIdle - time.Nanosecond)
		wantSeries(t, l, reg, 2, all)
		time.Sleep(time.Nanosecond)
		wantSeries(t, l, reg, 1, map[limiter.LabelSet]uint64{seriesA: 1})
		if n := testutil.CollectAndCount(l, "ratelimit_service_rate_limit_total_hits"); n != 1 {
			t.Errorf("%d series, want 1", n)
		}

		// A limit that was bound before counts on, from 0.
		l.ask(0, limiter.Hit{Limit: b, Cost: 4})
		l.ask(0, limiter.Hit{Limit: b, Cost: 5, Labels: []byte("user_alice\x00")})
		l.ask(0, limiter.Hit{Limit: a, Cost: 1})
		wantSeries(t, l, reg, 2, map[limiter.LabelSet]uint64{seriesA: 2, seriesB: 4, alice: 5})
	})
}

func TestSeriesThatAreUsedOrComeBackStay(t *testing.T) {
	for meanwhile, total := range map[string]uint64{"used": 2, "back in the rules": 1} {
		synctest.Test(t, func(t *testing.T) {
			l, reg := newUsage()
			a := perMinute(limiter.LabelSet{Domain: "a", Key1: "user"})
			l.ask(0, limiter.Hit{Limit: a, Cost: 1})
			l.Keep(slices.Values([]*limiter.Limit{}))
			time.Sleep(keepIdle - time.Nanosecond)
			if meanwhile == "used" {
				l.ask(0, limiter.Hit{Limit: a, Cost: 1})
			} else {
				l.Keep(slices.Values([]*limiter.Limit{tenant("a")}))
			}
			time.Sleep(time.Nanosecond)
			wantSeries(t, l, reg, 0, map[limiter.LabelSet]uint64{a.Series.Labels(): total})
		})
	}
}

// TestASumDoesNotFallWhenALimitLeaves replaces one of the limits of a rule again and
// again: what the reference's names tell of the rule goes on.
func TestASumDoesNotFallWhenALimitLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reg := newUsage()
		of := func(limit string) *limiter.Limit {
			return perMinute(limiter.LabelSet{Domain: "api", Key1: "user", Rule: "user", Limit: limit})
		}
		user := limiter.LabelSet{Domain: "api", Key1: "user"}
		stays := of("stays")
		for i := range uint64(5) {
			changed := of(string(rune('a' + i)))
			l.Keep(slices.Values([]*limiter.Limit{stays, changed}))
			l.ask(0, limiter.Hit{Limit: changed, Cost: 1})
			l.ask(0, limiter.Hit{Limit: stays, Cost: 2})
			time.Sleep(keepIdle)
			own := 2 // the limits of now
			if i > 0 {
				wantSeries(t, l, reg, own, map[limiter.LabelSet]uint64{user: 3 * (i + 1)})
			}
			if n := len(l.all); n > 3 {
				t.Errorf("%d series, want those of the limits and what is left of others", n)
			}
		}
		l.Keep(slices.Values([]*limiter.Limit{}))
		for range 3 {
			time.Sleep(keepIdle)
			for range l.Sums() {
				break
			}
		}
		wantSeries(t, l, reg, 0, map[limiter.LabelSet]uint64{})
	})
}
