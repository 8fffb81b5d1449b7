package limiter_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// spreading is a store that spreads the times, beside one that returns the exact times, on one
// clock.
type spreading struct {
	testing.TB
	now          time.Time
	store, exact limiter.Store
}

func newSpreading(t testing.TB) *spreading {
	p := &spreading{TB: t, now: time.Date(2030, 1, 1, 12, 0, 15, 0, time.UTC)}
	clock := func() time.Time { return p.now }
	p.exact = memory.New(memory.Options{Now: clock})
	p.store = spread{memory.New(memory.Options{Now: clock}), limiter.NewRetrySpread(clock)}
	return p
}

// spread is a store that spreads what it decides.
type spread struct {
	limiter.Store
	*limiter.RetrySpread
}

func (s spread) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	denied, err := s.Store.Decide(ctx, hits, out)
	if denied {
		s.Spread(hits, out)
	}
	return denied, err
}

// ask decides a request and compares the decisions with those of the exact store.
func (p *spreading) ask(hits ...limiter.Hit) (out, exact []limiter.Decision, denied bool) {
	p.Helper()
	out, exact = make([]limiter.Decision, len(hits)), make([]limiter.Decision, len(hits))
	denied, err := p.store.Decide(p.Context(), hits, out)
	wantDenied, wantErr := p.exact.Decide(p.Context(), hits, exact)
	if denied != wantDenied || err != nil || wantErr != nil {
		p.Fatalf("denied %t, error %v, want %t, %v", denied, err, wantDenied, wantErr)
	}
	for i, d := range out {
		push, most := d.RetryAfter-exact[i].RetryAfter, min(2*time.Minute, 2*hits[i].Limit.Period())
		if push < 0 || push > most {
			p.Errorf("hit %d: retry after %v, want %v, or at most %v more", i, d.RetryAfter, exact[i].RetryAfter, most)
		}
		d.RetryAfter = exact[i].RetryAfter
		if d != exact[i] {
			p.Errorf("hit %d: %+v, want %+v", i, d, exact[i])
		}
	}
	return out, exact, denied
}

// told asks for something that is denied n times and returns what it is told.
func (p *spreading) told(n int, h limiter.Hit) (waits []time.Duration) {
	p.Helper()
	for range n {
		out, _, denied := p.ask(h)
		if !denied {
			p.Fatalf("admitted: %+v", out)
		}
		waits = append(waits, out[0].RetryAfter)
	}
	return waits
}

func hitOn(l *limiter.Limit, key string, cost uint64) limiter.Hit {
	return limiter.Hit{Limit: l, Key: []byte(key), Cost: cost}
}

func seconds(n ...float64) (waits []time.Duration) {
	for _, s := range n {
		waits = append(waits, time.Duration(s*float64(time.Second)))
	}
	return waits
}

func TestRetrySpread(t *testing.T) {
	fixed := limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Minute}
	firstHit, sliding, bucket, hourly, few, ban := fixed, fixed, fixed, fixed, fixed, fixed
	firstHit.Algorithm = limiter.FirstHit
	sliding.Algorithm = limiter.SlidingWindow
	bucket.Algorithm = limiter.TokenBucket
	hourly.Unit, hourly.Algorithm = limiter.Hour, limiter.TokenBucket
	ban.DenyFor, ban.Algorithm = 10*time.Minute, limiter.TokenBucket
	few.RequestsPerUnit, few.Algorithm = 19, limiter.TokenBucket
	for _, c := range []struct {
		name string
		spec limiter.Spec
		cost uint64
		want []time.Duration // that those are told who come when the limit is used up
	}{
		{"a fixed window", fixed, 10, seconds(45, 45, 105, 105, 165, 165, 45, 45, 105)},
		{"all of a fixed window", fixed, 20, seconds(45, 105, 165, 45, 105)},
		{"a window of the first hit", firstHit, 10, seconds(60, 60, 120, 120, 180, 180, 60)},
		{"a sliding window", sliding, 10, seconds(75, 105, 135, 165, 195, 75)},
		{"a bucket", bucket, 10, seconds(30, 60, 90, 120, 150, 30)},
		{"all of a bucket", bucket, 20, seconds(60, 120, 180, 60)},
		{"a long period", hourly, 10, seconds(1800, 1800, 1800)},
		{"a ban", ban, 10, seconds(600, 600, 600)},
		{"a limit of few units", few, 19, seconds(60, 60, 60)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, l := newSpreading(t), storetest.Must(c.spec)
			p.ask(hitOn(l, "k", c.spec.RequestsPerUnit))
			if got := p.told(len(c.want), hitOn(l, "k", c.cost)); !slices.Equal(got, c.want) {
				t.Errorf("told %v, want %v", got, c.want)
			}
		})
	}
}

// everyAlgorithm are limits of a few units a minute.
func everyAlgorithm() map[string]*limiter.Limit {
	return map[string]*limiter.Limit{
		"fixed window":            storetest.Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute}),
		"window of the first hit": storetest.Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute, Algorithm: limiter.FirstHit}),
		"sliding window":          storetest.Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute, Algorithm: limiter.SlidingWindow}),
		"bucket":                  storetest.Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute, Algorithm: limiter.TokenBucket, Burst: 2}),
	}
}

// TestWhoIsAloneIsToldTheExactTime has a client alone come back as it is told, and be
// admitted each time.
func TestWhoIsAloneIsToldTheExactTime(t *testing.T) {
	for name, l := range everyAlgorithm() {
		t.Run(name, func(t *testing.T) {
			p := newSpreading(t)
			for range 20 {
				out, exact, denied := p.ask(hitOn(l, "k", 1))
				if !denied {
					continue
				}
				if out[0].RetryAfter != exact[0].RetryAfter {
					t.Errorf("retry after %v, want %v", out[0].RetryAfter, exact[0].RetryAfter)
				}
				p.now = p.now.Add(out[0].RetryAfter)
				if _, _, denied := p.ask(hitOn(l, "k", 1)); denied {
					t.Error("denied when it came back")
				}
			}
		})
	}
}

// TestWhoDoesNotWaitIsToldTheExactTime has a client ask again and again on limits
// that are those of one client.
func TestWhoDoesNotWaitIsToldTheExactTime(t *testing.T) {
	limits := everyAlgorithm()
	limits["one a minute"] = storetest.Must(limiter.Spec{RequestsPerUnit: 1, Unit: limiter.Minute})
	limits["ten a second"] = storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Second, Algorithm: limiter.TokenBucket})
	limits["a window of a day"] = storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Day})
	limits["a bucket of an hour"] = storetest.Must(limiter.Spec{RequestsPerUnit: 10_000, Unit: limiter.Hour, Algorithm: limiter.TokenBucket})
	for name, l := range limits {
		t.Run(name, func(t *testing.T) {
			p := newSpreading(t)
			p.ask(hitOn(l, "k", l.Size()))
			for range 1000 {
				p.now = p.now.Add(70 * time.Millisecond)
				out, exact, _ := p.ask(hitOn(l, "k", 1))
				if push := out[0].RetryAfter - exact[0].RetryAfter; push < 0 || push >= time.Second {
					t.Fatalf("told %v, want %v and less than a second more", out[0].RetryAfter, exact[0].RetryAfter)
				}
			}
		})
	}
}

// TestWhoDoesNotWaitPushesNobodyFar has a client ask 10 times a second on limits that
// many share, for ten minutes. Others are told nearly the exact time for most of it.
func TestWhoDoesNotWaitPushesNobodyFar(t *testing.T) {
	for name, l := range sharedLimits() {
		t.Run(name, func(t *testing.T) {
			p := newSpreading(t)
			p.ask(hitOn(l, "k", l.Size()))
			asked, far := 0, 0
			for range 6000 {
				p.now = p.now.Add(100 * time.Millisecond)
				out, exact, _ := p.ask(hitOn(l, "k", 1))
				if exact[0].RetryAfter == 0 {
					continue
				}
				asked++
				if out[0].RetryAfter-exact[0].RetryAfter > 10*time.Second {
					far++
				}
			}
			if t.Logf("%d of %d are told more than 10s more", far, asked); far*4 > asked {
				t.Errorf("%d of %d are told more than 10s more than the exact time, want a quarter at most", far, asked)
			}
		})
	}
}

// TestClocksTellTheSameTimeDifferently has two ask at a time that the store takes for
// a bit earlier than RetrySpread does: the second is told to come after the first.
func TestClocksTellTheSameTimeDifferently(t *testing.T) {
	l := storetest.Must(limiter.Spec{RequestsPerUnit: 50, Unit: limiter.Second, Algorithm: limiter.TokenBucket})
	now := time.Date(2030, 1, 1, 12, 0, 15, 0, time.UTC)
	clock := func() time.Time { return now }
	late := now
	p := spread{memory.New(memory.Options{Now: clock}), limiter.NewRetrySpread(func() time.Time { return late })}
	out := make([]limiter.Decision, 1)
	for i, want := range []time.Duration{0, 20 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond} {
		cost := uint64(1)
		if i == 0 {
			cost = 50
		}
		if _, err := p.Decide(t.Context(), []limiter.Hit{hitOn(l, "k", cost)}, out); err != nil || (out[0].RetryAfter-want).Abs() > time.Millisecond {
			t.Errorf("request %d is told %v (error: %v), want %v", i, out[0].RetryAfter, err, want)
		}
		late = late.Add(30 * time.Microsecond)
	}
}

// sharedLimits are limits of as many units as the algorithms of everyAlgorithm need
// to be taken for what many share.
func sharedLimits() map[string]*limiter.Limit {
	limits := map[string]*limiter.Limit{}
	for name, l := range everyAlgorithm() {
		spec := l.Spec
		spec.RequestsPerUnit = 50
		limits[name] = storetest.Must(spec)
	}
	return limits
}

// TestExactTimes of those who will not come back, or not because of this limit.
func TestExactTimes(t *testing.T) {
	l := storetest.Must(limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Minute})
	slow := storetest.Must(limiter.Spec{RequestsPerUnit: 1, Unit: limiter.Day})
	none := storetest.Must(limiter.Spec{Unit: limiter.Day})
	with := func(change func(*limiter.Hit)) limiter.Hit {
		h := hitOn(l, "k", 20)
		change(&h)
		return h
	}
	for name, request := range map[string][]limiter.Hit{
		"a peek":                        {with(func(h *limiter.Hit) { h.Cost = 0 })},
		"a charge":                      {with(func(h *limiter.Hit) { h.Always = true })},
		"shadow mode":                   {with(func(h *limiter.Hit) { h.Mode = limiter.Shadow })},
		"shadow mode, denied elsewhere": {with(func(h *limiter.Hit) { h.Mode = limiter.Shadow }), hitOn(slow, "slow", 1)},
		"a quota":                       {with(func(h *limiter.Hit) { h.Mode = limiter.Quota })},
		"more than ever fits":           {hitOn(l, "k", 21)},
		"what another limit never lets": {hitOn(l, "k", 20), hitOn(none, "none", 1)},
		"what waits for another limit":  {hitOn(l, "k", 20), hitOn(slow, "slow", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newSpreading(t)
			p.ask(hitOn(l, "k", 20))
			p.ask(hitOn(slow, "slow", 1))
			for range 3 {
				p.ask(request...)
			}
			if got, want := p.told(2, hitOn(l, "k", 20)), seconds(45, 105); !slices.Equal(got, want) {
				t.Errorf("after that others are told %v, want %v", got, want)
			}
		})
	}
}

// TestRetrySpreadChangesNoDecision has random requests on a few counters; ask compares.
func TestRetrySpreadChangesNoDecision(t *testing.T) {
	p, random := newSpreading(t), rand.New(rand.NewPCG(3, 4))
	var limits []*limiter.Limit
	for _, l := range sharedLimits() {
		limits = append(limits, l)
	}
	later := 0
	for range 20_000 {
		p.now = p.now.Add(time.Duration(random.IntN(int(5 * time.Second))))
		var hits []limiter.Hit
		for range 1 + random.IntN(3) {
			i := random.IntN(len(limits))
			hits = append(hits, limiter.Hit{
				Limit: limits[i], Key: []byte{byte('a' + i)}, Cost: uint64(random.IntN(30)), Refund: random.IntN(8) == 0,
				Always: random.IntN(8) == 0, Mode: limiter.Mode(random.IntN(12) / 5),
			})
		}
		out, _, denied := p.ask(hits...)
		if denied && slices.ContainsFunc(out, func(d limiter.Decision) bool { return d.RetryAfter > 2*time.Minute }) {
			later++
		}
	}
	if later == 0 {
		t.Error("nobody was told to come later")
	}
}

func TestRetrySpreadTakesNoMemory(t *testing.T) {
	p := newSpreading(t)
	hits, out := []limiter.Hit{hitOn(sharedLimits()["bucket"], "k", 1)}, make([]limiter.Decision, 1)
	ask := func() {
		testenv.Must(p.store.Decide(t.Context(), hits, out))(t)
	}
	for range 3 {
		ask()
	}
	if n := testing.AllocsPerRun(100, ask); n != 0 {
		t.Errorf("%v allocations for a denied request, want none", n)
	}
}
