package telemetry

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
)

// ofUser is a limit of a rule of a domain.
func ofUser(domain, limit string) *limiter.Limit {
	return perMinute(10, limiter.LabelSet{Domain: domain, Key1: "user", Rule: "user", Limit: limit})
}

// keep sets which limits there are, and lets time pass.
func (u *Usage) keep(pass time.Duration, limits ...*limiter.Limit) {
	u.Keep(slices.Values(limits))
	time.Sleep(pass)
}

// wantSeries checks the total of every series by its first labels, and how many there are
// of limits' own.
func wantSeries(t *testing.T, l *Usage, reg *prometheus.Registry, own int, want string) {
	t.Helper()
	got := ""
	for s, units := range l.Sums() {
		got += fmt.Sprintf(" %s.%s:%d", s.Domain, s.Key1, units[TotalHits])
	}
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n, err := testutil.GatherAndCount(reg, "weir_limit_hits_total"); err != nil || n != 3*own { // its outcomes
		t.Errorf("%d series of limits' own, want %d (error: %v)", n, 3*own, err)
	}
}

func TestSeriesOfRulesThatAreGoneAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reg := newUsage()
		a, b := ofUser("a", "minute"), ofUser("b", "minute")
		l.ask(0, limiter.Hit{Limit: a, Cost: 1})
		l.ask(0, limiter.Hit{Limit: b, Cost: 2})
		l.ask(0, limiter.Hit{Limit: b, Cost: 3, Labels: []byte("user_alice\x00")})
		const all = " a.user:1 b.user:2 b.user_alice:3"
		wantSeries(t, l, reg, 2, all)
		l.keep(keepIdle, a, b)
		wantSeries(t, l, reg, 2, all)
		l.keep(keepIdle-time.Nanosecond, a)
		wantSeries(t, l, reg, 2, all)
		time.Sleep(time.Nanosecond)
		wantSeries(t, l, reg, 1, " a.user:1")
		if n := testutil.CollectAndCount(l, "ratelimit_service_rate_limit_total_hits"); n != 1 {
			t.Errorf("%d series, want 1", n)
		}

		// A limit that was bound before counts on, from 0.
		l.ask(0, limiter.Hit{Limit: b, Cost: 4})
		l.ask(0, limiter.Hit{Limit: b, Cost: 5, Labels: []byte("user_alice\x00")})
		l.ask(0, limiter.Hit{Limit: a, Cost: 1})
		wantSeries(t, l, reg, 2, " a.user:2 b.user:4 b.user_alice:5")
	})
}

func TestSeriesThatAreUsedOrComeBackStay(t *testing.T) {
	a := perMinute(10, limiter.LabelSet{Domain: "a", Key1: "user"})
	for want, meanwhile := range map[string]func(*Usage){
		" a.user:2": func(l *Usage) { l.ask(0, limiter.Hit{Limit: a, Cost: 1}) },
		" a.user:1": func(l *Usage) { l.keep(0, ofUser("a", "minute")) },
	} {
		synctest.Test(t, func(t *testing.T) {
			l, reg := newUsage()
			l.ask(0, limiter.Hit{Limit: a, Cost: 1})
			l.keep(keepIdle - time.Nanosecond)
			meanwhile(l)
			time.Sleep(time.Nanosecond)
			wantSeries(t, l, reg, 0, want)
		})
	}
}

// TestASumDoesNotFallWhenALimitLeaves replaces one of the limits of a rule again and
// again: what the reference's names tell of the rule goes on.
func TestASumDoesNotFallWhenALimitLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reg := newUsage()
		stays := ofUser("api", "stays")
		for i := range 5 {
			changed := ofUser("api", fmt.Sprint(i))
			l.keep(0, stays, changed)
			l.ask(0, limiter.Hit{Limit: changed, Cost: 1}, limiter.Hit{Limit: stays, Cost: 2})
			time.Sleep(keepIdle)
			wantSeries(t, l, reg, 2, fmt.Sprintf(" api.user:%d", 3*(i+1)))
			if n := len(l.all); n > 3 {
				t.Errorf("%d series, want those of the limits and what is left of others", n)
			}
		}
		l.keep(0)
		for range 3 {
			time.Sleep(keepIdle)
			_ = l.rows(time.Now())
		}
		wantSeries(t, l, reg, 0, "")
	})
}
