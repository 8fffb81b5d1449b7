package telemetry

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// ofUser returns a limit of the rule for users in a domain.
func ofUser(domain, limit string) *limiter.Limit {
	return perMinute(10, limiter.LabelSet{Domain: domain, Key1: "user", Rule: "user", Limit: limit})
}

// keep sets the limits in use, and waits for a number of checks.
func (u *Usage) keep(looks int, limits ...*limiter.Limit) {
	u.Keep(slices.Values(limits))
	time.Sleep(time.Duration(looks) * keepEvery)
	synctest.Wait()
}

// wantSeries checks the total of each series by domain and first key, and that the given number of
// limits have their own series in weir_limit_hits_total.
func wantSeries(t *testing.T, l *Usage, reg *prometheus.Registry, own int, want string) {
	t.Helper()
	got := ""
	for s, units := range l.Sums() {
		got += fmt.Sprintf(" %s.%s:%d", s.Domain, s.Key1, units[TotalHits])
	}
	testenv.Equal(t, got, want, "series")
	if n, err := testutil.GatherAndCount(reg, "weir_limit_hits_total"); err != nil || n != 3*own { // one per outcome
		t.Errorf("%d series of limits' own, want %d (error: %v)", n, 3*own, err)
	}
}

func TestSeriesOfRulesThatAreGoneAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reg := newUsage()
		go l.Run(t.Context())
		a, b := ofUser("a", "minute"), ofUser("b", "minute")
		l.ask(0, limiter.Hit{Limit: a, Cost: 1})
		l.ask(0, limiter.Hit{Limit: b, Cost: 2})
		l.ask(0, limiter.Hit{Limit: b, Cost: 3, Labels: []byte("user_alice\x00")})
		const all = " a.user:1 b.user:2 b.user_alice:3"
		wantSeries(t, l, reg, 2, all)
		l.keep(100, a, b)
		wantSeries(t, l, reg, 2, all)
		l.ask(0, limiter.Hit{Limit: b, Cost: 1})
		l.ask(0, limiter.Hit{Limit: b, Cost: 1, Labels: []byte("user_alice\x00")})
		l.keep(keepChecks, a)
		wantSeries(t, l, reg, 2, " a.user:1 b.user:3 b.user_alice:4")
		l.keep(1, a)
		wantSeries(t, l, reg, 1, " a.user:1")
		testenv.Equal(t, testutil.CollectAndCount(l, "ratelimit_service_rate_limit_total_hits"), 1, "series")

		// A limit of older rules can still count, from 0.
		l.ask(0, limiter.Hit{Limit: b, Cost: 4})
		l.ask(0, limiter.Hit{Limit: b, Cost: 5, Labels: []byte("user_alice\x00")})
		l.ask(0, limiter.Hit{Limit: a, Cost: 1})
		wantSeries(t, l, reg, 2, " a.user:2 b.user:4 b.user_alice:5")
	})
}

func TestSeriesThatAreUsedOrComeBackStay(t *testing.T) {
	a := ofUser("a", "minute")
	for want, meanwhile := range map[string]func(*Usage){
		" a.user:2": func(l *Usage) { l.ask(0, limiter.Hit{Limit: a, Cost: 1}) },
		" a.user:1": func(l *Usage) { l.keep(0, a) },
	} {
		synctest.Test(t, func(t *testing.T) {
			l, reg := newUsage()
			go l.Run(t.Context())
			l.ask(0, limiter.Hit{Limit: a, Cost: 1})
			l.keep(keepChecks)
			meanwhile(l)
			time.Sleep(keepChecks * keepEvery)
			synctest.Wait()
			wantSeries(t, l, reg, 1, want)
		})
	}
}

// TestSumsOfALongLife increases sums beyond the ranges of smaller types, and keeps them when their
// limit is removed.
func TestSumsOfALongLife(t *testing.T) {
	for _, end := range []uint64{1 << 31, 1 << 32, 1 << 53, 1 << 63} {
		synctest.Test(t, func(t *testing.T) {
			l, reg := newUsage()
			go l.Run(t.Context())
			stays, leaves := ofUser("api", "stays"), ofUser("api", "leaves")
			l.of(leaves.Series).sums[TotalHits].Store(end - 2)
			l.ask(0, limiter.Hit{Limit: leaves, Cost: 3}, limiter.Hit{Limit: stays, Cost: 1})
			wantSeries(t, l, reg, 2, fmt.Sprintf(" api.user:%d", end+2))
			l.keep(keepChecks+1, stays)
			wantSeries(t, l, reg, 1, fmt.Sprintf(" api.user:%d", end+2))
		})
	}
}

// TestASumDoesNotFallWhenALimitLeaves replaces one of a rule's limits again and again. The sums of
// the rule under the reference's names never fall.
func TestASumDoesNotFallWhenALimitLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reg := newUsage()
		go l.Run(t.Context())
		stays := ofUser("api", "stays")
		for i := range 5 {
			changed := ofUser("api", fmt.Sprint(i))
			l.keep(0, stays, changed)
			l.ask(0, limiter.Hit{Limit: changed, Cost: 1}, limiter.Hit{Limit: stays, Cost: 2})
			l.keep(keepChecks+1, stays, changed)
			wantSeries(t, l, reg, 2, fmt.Sprintf(" api.user:%d", 3*(i+1)))
			if n := len(l.all) + len(l.rest); n > 3 {
				t.Errorf("%d series, want those of the limits and what is left of others", n)
			}
		}
		l.keep(keepChecks)
		wantSeries(t, l, reg, 0, "")
		if len(l.rest) > 0 {
			t.Errorf("%d sums are left of limits of which none stays", len(l.rest))
		}
	})
}

// TestValuesMakeRoom fills the table of values with series that differ only on the third level,
// which names of statsd show, but labels of Prometheus do not.
func TestValuesMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newUsage()
		go l.Run(t.Context())
		limit := ofUser("api", "minute")
		hit := func(value any) {
			l.ask(0, limiter.Hit{Limit: limit, Cost: 1, Labels: fmt.Appendf(nil, "a\x00b\x00%v\x00", value)})
		}
		want := func(prometheus string, statsd map[string]uint64) {
			t.Helper()
			const name = "ratelimit_service_rate_limit_total_hits"
			prometheus = "# HELP " + name + " Requested units.\n# TYPE " + name + " counter\n" + strings.ReplaceAll(prometheus, "{", name+`{domain="api",`)
			testenv.OK(t, testutil.CollectAndCompare(l, strings.NewReader(prometheus), name))
			got := map[string]uint64{}
			for labels, sums := range l.Sums() {
				got[labels.Key1+"."+labels.More] = sums[TotalHits]
			}
			if statsd != nil && !maps.Equal(got, statsd) {
				t.Errorf("%d series for statsd, want %v", len(got), statsd)
			}
		}
		for i := range maxDetailed - 1 {
			hit(i)
		}
		time.Sleep(24 * time.Hour)
		hit("busy")
		testenv.Equal(t, len(l.detailed), maxDetailed, "series of values, which stay where there is room")
		hit("no room")
		want("{key1=\"a\",key2=\"b\"} 10000\n{key1=\"user\",key2=\"\"} 1\n", nil)
		time.Sleep(keepEvery)
		synctest.Wait()
		hit("new")
		hit("busy")
		want("{key1=\"a\",key2=\"b\"} 10002\n{key1=\"user\",key2=\"\"} 1\n", map[string]uint64{"a.busy": 2, "a.new": 1, "user.": 1})
		l.keep(keepChecks + 1) // without the rule
		want("", map[string]uint64{})
		if n := len(l.all) + len(l.detailed) + len(l.rest); n > 0 {
			t.Errorf("%d series stay without their rule", n)
		}
	})
}

// TestManySeriesLeave adds and removes limits again and again while requests count, some of them in
// new series. Other programs may delay a request, but not in every round.
func TestManySeriesLeave(t *testing.T) {
	const series = 300_000
	l, _ := newUsage()
	before, late := testenv.LiveHeap(), 0
	count := func(key string, i int) {
		l.of(limiter.LabelSet{Domain: "api", Key1: key, Rule: strconv.Itoa(i), Limit: "minute"}.Series())
	}
	longest := [2]float64{1, 1} // longest wait of a request, as a share of the time to mark and to remove series
	for round := 0; round < 2 || round < 6 && max(longest[0], longest[1]) > 0.5; round++ {
		for i := range series {
			count("user", i)
		}
		for i, work := range []func(){func() { l.Keep(slices.Values[[]*limiter.Limit](nil)); l.expire() }, l.expire} {
			for range i * (keepChecks - 2) { // the next check removes them
				l.expire()
			}
			var done atomic.Bool
			go func() {
				defer done.Store(true)
				work()
			}()
			began, wait := time.Now(), time.Duration(0)
			for at := began; !done.Load(); late++ {
				count("late", late/100)
				now := time.Now()
				at, wait = now, max(wait, now.Sub(at))
			}
			longest[i] = min(longest[i], wait.Seconds()/time.Since(began).Seconds())
		}
	}
	if n := len(l.all); n > late {
		t.Errorf("%d series stay, want at most the %d that came late", n, late)
	}
	if max(longest[0], longest[1]) > 0.5 {
		t.Errorf("a request waits for %.2f of the time in which series are marked and removed", longest)
	}
	if grown := testenv.LiveHeap() - before; grown > 8<<20 {
		t.Errorf("the heap grew by %d KiB, want about none", grown>>10)
	}
	runtime.KeepAlive(l)
}
