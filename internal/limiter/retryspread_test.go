package limiter

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/testenv"
)

// spreading is a store with a RetrySpread, and its clock.
type spreading struct {
	testing.TB
	now    time.Time
	states map[string]*State
	*RetrySpread
}

func newSpreading(t testing.TB) *spreading {
	p := &spreading{TB: t, now: time.Date(2030, 1, 1, 12, 0, 15, 0, time.UTC), states: map[string]*State{}}
	p.RetrySpread = NewRetrySpread(func() time.Time { return p.now })
	return p
}

// ask decides a request, and checks that RetrySpread changes nothing but RetryAfter.
func (p *spreading) ask(hits ...Hit) (out, exact []Decision, denied bool) {
	p.Helper()
	exact = make([]Decision, len(hits))
	denied = Decide(hits, statesOf(hits, p.states), nil, p.now.UnixMicro(), exact)
	out = slices.Clone(exact)
	if denied {
		p.Spread(hits, out)
	}
	for i, d := range out {
		push, most := d.RetryAfter-exact[i].RetryAfter, min(2*time.Minute, 2*hits[i].Limit.Period())
		if push < 0 || push > most {
			p.Errorf("hit %d: retry after %v, want %v, or at most %v more", i, d.RetryAfter, exact[i].RetryAfter, most)
		}
		d.RetryAfter = exact[i].RetryAfter
		testenv.Equal(p, d, exact[i], "hit %d", i)
	}
	return out, exact, denied
}

// retries sends a hit n times, which must be denied each time, and returns the retry times.
func (p *spreading) retries(n int, h Hit) (waits []time.Duration) {
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

func hitOn(l *Limit, key string, cost uint64) Hit { return Hit{Limit: l, Key: []byte(key), Cost: cost} }

func seconds(n ...float64) (waits []time.Duration) {
	for _, s := range n {
		waits = append(waits, time.Duration(s*float64(time.Second)))
	}
	return waits
}

func TestRetrySpread(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
		cost uint64
		want []time.Duration // retry times of the clients that come after the limit is used up
	}{
		{"a fixed window", Spec{RequestsPerUnit: 20, Unit: Minute}, 10, seconds(45, 45, 105, 105, 165, 165, 45, 45, 105)},
		{"all of a fixed window", Spec{RequestsPerUnit: 20, Unit: Minute}, 20, seconds(45, 105, 165, 45, 105)},
		{"a window of the first hit", Spec{RequestsPerUnit: 20, Unit: Minute, Algorithm: FirstHit}, 10, seconds(60, 60, 120, 120, 180, 180, 60)},
		{"a sliding window", Spec{RequestsPerUnit: 20, Unit: Minute, Algorithm: SlidingWindow}, 10, seconds(75, 105, 135, 165, 195, 75)},
		{"a bucket", Spec{RequestsPerUnit: 20, Unit: Minute, Algorithm: TokenBucket}, 10, seconds(30, 60, 90, 120, 150, 30)},
		{"all of a bucket", Spec{RequestsPerUnit: 20, Unit: Minute, Algorithm: TokenBucket}, 20, seconds(60, 120, 180, 60)},
		{"a long period", Spec{RequestsPerUnit: 20, Unit: Hour, Algorithm: TokenBucket}, 10, seconds(1800, 1800, 1800)},
		{"a ban", Spec{RequestsPerUnit: 20, Unit: Minute, Algorithm: TokenBucket, DenyFor: 10 * time.Minute}, 10, seconds(600, 600, 600)},
		{"a limit of few units", Spec{RequestsPerUnit: 19, Unit: Minute, Algorithm: TokenBucket}, 19, seconds(60, 60, 60)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, l := newSpreading(t), MustLimit(c.spec)
			p.ask(hitOn(l, "k", c.spec.RequestsPerUnit))
			testenv.EqualLists(t, p.retries(len(c.want), hitOn(l, "k", c.cost)), c.want, "retries")
		})
	}
}

// oneMinute returns limits of an amount per minute. From an amount of 20, they are treated as
// shared by many clients.
func oneMinute(amount uint64) (limits []*Limit) {
	for _, a := range []Algorithm{FixedWindow, FirstHit, SlidingWindow} {
		limits = append(limits, MustLimit(Spec{RequestsPerUnit: amount, Unit: Minute, Algorithm: a}))
	}
	return append(limits, MustLimit(Spec{RequestsPerUnit: amount, Unit: Minute, Algorithm: TokenBucket, Burst: 2}))
}

// A lone client retries at the reported time, and is admitted each time.
func TestLoneClientGetsTheExactTime(t *testing.T) {
	for _, l := range oneMinute(3) {
		p := newSpreading(t)
		for range 20 {
			out, exact, denied := p.ask(hitOn(l, "k", 1))
			if !denied {
				continue
			}
			p.now = p.now.Add(out[0].RetryAfter)
			if _, _, denied := p.ask(hitOn(l, "k", 1)); denied || out[0].RetryAfter != exact[0].RetryAfter {
				t.Errorf("%v: retry after %v, want %v; then denied %t", l.Algorithm, out[0].RetryAfter, exact[0].RetryAfter, denied)
			}
		}
	}
}

// A client that asks repeatedly gets almost the exact time: always from per-client limits, and for
// most of ten minutes from limits that many clients share.
func TestImpatientClientsDelayOthersLittle(t *testing.T) {
	for _, c := range []struct {
		limits  []*Limit
		asks    int
		every   time.Duration
		nearly  time.Duration
		mostFar int // percentage of denials
	}{
		{append(
			oneMinute(3),
			MustLimit(Spec{RequestsPerUnit: 1, Unit: Minute}),
			MustLimit(Spec{RequestsPerUnit: 10, Unit: Second, Algorithm: TokenBucket}),
			MustLimit(Spec{RequestsPerUnit: 100, Unit: Day}),
			MustLimit(Spec{RequestsPerUnit: 10_000, Unit: Hour, Algorithm: TokenBucket}),
		), 1000, 70 * time.Millisecond, time.Second - 1, 0},
		{oneMinute(50), 6000, 100 * time.Millisecond, 10 * time.Second, 25},
	} {
		for _, l := range c.limits {
			p := newSpreading(t)
			p.ask(hitOn(l, "k", l.Size()))
			denied, far := 0, 0
			for range c.asks {
				p.now = p.now.Add(c.every)
				out, exact, _ := p.ask(hitOn(l, "k", 1))
				if exact[0].RetryAfter > 0 {
					denied++
				}
				if out[0].RetryAfter-exact[0].RetryAfter > c.nearly {
					far++
				}
			}
			if denied == 0 || far*100 > denied*c.mostFar {
				t.Errorf("%s %s: %d of %d are delayed by more than %v, want %d %% at most", l.Rate(), l.Algorithm, far, denied, c.nearly, c.mostFar)
			}
		}
	}
}

// Two clients ask at a time that is a bit earlier by the store's clock than by RetrySpread's
// clock. The second client must retry after the first.
func TestClocksThatDiffer(t *testing.T) {
	p, l := newSpreading(t), MustLimit(Spec{RequestsPerUnit: 50, Unit: Second, Algorithm: TokenBucket})
	hits, store, out := []Hit{hitOn(l, "k", 50)}, p.now.UnixMicro(), make([]Decision, 1)
	for i, want := range []time.Duration{0, 20 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond} {
		if Decide(hits, statesOf(hits, p.states), nil, store, out) {
			p.Spread(hits, out)
		}
		if (out[0].RetryAfter - want).Abs() > time.Millisecond {
			t.Errorf("request %d gets %v, want %v", i, out[0].RetryAfter, want)
		}
		hits[0].Cost, p.now = 1, p.now.Add(30*time.Microsecond)
	}
}

// A client that does not retry, or retries because of another limit, gets the exact time and
// delays no other client.
func TestExactTimes(t *testing.T) {
	l := MustLimit(Spec{RequestsPerUnit: 20, Unit: Minute})
	slow, none := MustLimit(Spec{RequestsPerUnit: 1, Unit: Day}), MustLimit(Spec{Unit: Day})
	for name, request := range map[string][]Hit{
		"a peek":                        {{Limit: l, Key: []byte("k")}},
		"a charge":                      {{Limit: l, Key: []byte("k"), Cost: 20, Always: true}},
		"shadow mode":                   {{Limit: l, Key: []byte("k"), Cost: 20, Mode: Shadow}},
		"shadow mode, denied elsewhere": {{Limit: l, Key: []byte("k"), Cost: 20, Mode: Shadow}, hitOn(slow, "slow", 1)},
		"a quota":                       {{Limit: l, Key: []byte("k"), Cost: 20, Mode: Quota}},
		"more than ever fits":           {hitOn(l, "k", 21)},
		"what another limit never lets": {hitOn(l, "k", 20), hitOn(none, "none", 1)},
		"what waits for another limit":  {hitOn(l, "k", 20), hitOn(slow, "slow", 1)},
	} {
		p := newSpreading(t)
		p.ask(hitOn(l, "k", 20))
		p.ask(hitOn(slow, "slow", 1))
		for range 3 {
			p.ask(request...)
		}
		if got, want := p.retries(2, hitOn(l, "k", 20)), seconds(45, 105); !slices.Equal(got, want) {
			t.Errorf("%s: after that others get %v, want %v", name, got, want)
		}
	}
}

// TestRetrySpreadChangesNoDecision sends random requests on a few counters. ask checks each
// decision.
func TestRetrySpreadChangesNoDecision(t *testing.T) {
	p, random, limits := newSpreading(t), rand.New(rand.NewPCG(3, 4)), oneMinute(50)
	later := 0
	for range 20_000 {
		p.now = p.now.Add(time.Duration(random.IntN(int(5 * time.Second))))
		var hits []Hit
		for range 1 + random.IntN(3) {
			i := random.IntN(len(limits))
			hits = append(hits, Hit{
				Limit: limits[i], Key: []byte{byte('a' + i)}, Cost: uint64(random.IntN(30)), Refund: random.IntN(8) == 0,
				Always: random.IntN(8) == 0, Mode: Mode(random.IntN(12) / 5),
			})
		}
		out, _, denied := p.ask(hits...)
		if denied && slices.ContainsFunc(out, func(d Decision) bool { return d.RetryAfter > 2*time.Minute }) {
			later++
		}
	}
	if later == 0 {
		t.Error("no request was told to come later")
	}
}

func TestRetrySpreadTakesNoMemory(t *testing.T) {
	p, out := newSpreading(t), []Decision{{Over: true, RetryAfter: time.Second}}
	hits := []Hit{hitOn(oneMinute(50)[0], "k", 1)}
	testenv.Equal(t, testing.AllocsPerRun(100, func() { p.Spread(hits, out) }), 0, "allocations for a denied request")
}
