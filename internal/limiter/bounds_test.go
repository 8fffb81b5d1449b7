package limiter

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"weir/internal/testenv"
)

// bounded are the limits of these tests. Their amounts have no divisor in common with their
// period, and some refill in less than a microsecond.
var bounded = []Spec{
	{Unit: Minute, RequestsPerUnit: 7},
	{Unit: Month, RequestsPerUnit: 50_000_017},
	{Unit: Second, RequestsPerUnit: math.MaxUint32 - 4},
	{Unit: Month, RequestsPerUnit: MaxAmount - 27},
	{Unit: Minute, RequestsPerUnit: 7, Algorithm: FirstHit},
	{Unit: Minute, RequestsPerUnit: MaxAmount, Algorithm: FirstHit},
	{Unit: Month, RequestsPerUnit: 50_000_017, Algorithm: FirstHit},
	{Unit: Day, RequestsPerUnit: 7, Algorithm: ByCalendar, TimeZone: "Europe/Berlin"},
	{Unit: Month, RequestsPerUnit: 50_000_017, Algorithm: ByCalendar},
	{Unit: Year, RequestsPerUnit: 7, Algorithm: ByCalendar, TimeZone: "America/New_York"},
	{Unit: Minute, RequestsPerUnit: 7, Algorithm: SlidingWindow},
	{Unit: Day, RequestsPerUnit: 999_983, Algorithm: SlidingWindow},
	{Unit: Month, RequestsPerUnit: 50_000_017, Algorithm: SlidingWindow},
	{Unit: Second, RequestsPerUnit: math.MaxUint32 - 4, Algorithm: SlidingWindow},
	{Unit: Minute, RequestsPerUnit: 7, Algorithm: TokenBucket},
	{Unit: Month, RequestsPerUnit: 1001, Algorithm: TokenBucket},
	{Unit: Month, RequestsPerUnit: 50_000_017, Algorithm: TokenBucket, Burst: 10},
	{Unit: Year, RequestsPerUnit: 71_000_003, Algorithm: TokenBucket, Burst: 5},
	{Unit: Year, UnitMultiplier: 100, RequestsPerUnit: 999_983, Algorithm: TokenBucket},
	{Unit: Day, RequestsPerUnit: math.MaxUint32 - 4, Algorithm: TokenBucket, Burst: 3},
	{Unit: Second, RequestsPerUnit: math.MaxUint32 - 4, Algorithm: TokenBucket, Burst: 1},
	{Unit: Second, RequestsPerUnit: 9_007_199_253, Algorithm: TokenBucket, Burst: MaxAmount},
	{Unit: Minute, RequestsPerUnit: 7, Algorithm: SlidingLog},
	{Unit: Month, RequestsPerUnit: 9973, Algorithm: SlidingLog},
}

// TestBounds sends requests as greedily as possible, in bursts and at odd times, on a steady
// clock and on a clock that repeatedly steps back, by fractions of a period or by many periods.
// It compares the admissions in every span of real time with the promises of docs/algorithms.md,
// exactly and to the microsecond:
//
//   - A bucket, a sliding window, a sliding log and a window from the first hit admit no more in
//     any span than they would on a steady clock.
//   - Any window that the clock shows admits at most the amount, including the use that was
//     carried into it. So a step back admits at most one more amount, when a window that the
//     clock has left begins again.
//   - A denied client waits no longer than the algorithm's longest wait, and is admitted at its
//     retry time.
func TestBounds(t *testing.T) {
	document := testenv.Must(os.ReadFile("../../docs/algorithms.md"))(t)
	for algorithm, promise := range promises {
		row := regexp.MustCompile(`(?m)^\|\[.*` + algorithm.String() + `.*\|` + regexp.QuoteMeta(promise) + `\|$`)
		if !row.Match(document) {
			t.Errorf("docs/algorithms.md has no row with: %s", promise)
		}
	}
	for _, spec := range bounded {
		t.Run(fmt.Sprintf("%s %d per %s burst %d", spec.Algorithm, spec.RequestsPerUnit, spec.Per(), spec.Burst), func(t *testing.T) {
			l := MustLimit(spec)
			for seed := range uint64(6) {
				c := newSteppedClient(t, l, seed)
				for len(c.admitted) < 120 {
					c.ask()
					c.wait()
					if seed%3 > 0 && c.IntN(6) == 0 {
						c.stepBack()
					}
				}
				c.checkBounds()
			}
		})
	}
}

// TestAMomentInTheFuture puts the clock forward for a moment and back again: use from the future
// counts, but no client waits until then.
func TestAMomentInTheFuture(t *testing.T) {
	for _, spec := range bounded {
		l := MustLimit(spec)
		for _, forward := range []int64{1, l.Period().Microseconds() / 3, l.Period().Microseconds(), 2*l.Period().Microseconds() + 1, 720 * l.Period().Microseconds()} {
			c := newSteppedClient(t, l, uint64(forward))
			c.takeAll()
			if forward > (1<<52)-c.clock() {
				continue // Redis could not represent that time either
			}
			c.offset += forward
			c.takeAll()
			c.real += 1000
			before := c.decide(0).Used
			c.offset -= forward
			if after := c.decide(0).Used; after < before {
				t.Errorf("%+v, %d µs ahead for a moment: %d used after %d", spec, forward, after, before)
			}
			c.mustWaitAsPromised()
		}
	}
}

// admission is a number of units that a limit admitted at one time.
type admission struct{ at, units int64 }

// steppedClient is the only client of a counter, and its clock.
type steppedClient struct {
	*testing.T
	*rand.Rand
	limit *Limit
	state State
	uses  map[string]Uses

	real   int64 // elapsed real time, in microseconds
	offset int64 // difference of the clock from real time

	admitted []admission // admissions by real time
	steps    int64       // number of steps back
	stepped  []int64     // number of steps back before each admission
	window   admission   // current window of the clock, with the use carried and admitted into it
}

func newSteppedClient(t *testing.T, l *Limit, seed uint64) *steppedClient {
	c := &steppedClient{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), limit: l, uses: map[string]Uses{}}
	c.offset = at(0) + c.Int64N(l.Period().Microseconds())
	return c
}

func (c *steppedClient) clock() int64 { return c.real + c.offset }

func (c *steppedClient) decide(cost int64) Decision {
	out := make([]Decision, 1)
	hits := []Hit{{Limit: c.limit, Cost: uint64(cost)}}
	Decide(hits, []*State{&c.state}, keptOf(hits, c.uses, nil), c.clock(), out)
	if !out[0].Charged {
		cost = 0
	} else {
		c.admitted, c.stepped = append(c.admitted, admission{c.real, cost}), append(c.stepped, c.steps)
	}
	if slices.Contains([]Algorithm{TokenBucket, FirstHit, SlidingLog}, c.limit.Algorithm) {
		return out[0]
	}
	switch shown := newRule(c.limit).start(c.clock()); {
	case shown > c.window.at:
		c.window = admission{at: shown}
	case shown < c.window.at:
		c.window = admission{shown, c.state.Used - cost}
	}
	if c.window.units += cost; cost > 0 && c.window.units > int64(c.limit.RequestsPerUnit) {
		c.Fatalf("window %d holds %d with what was carried into it", c.window.at, c.window.units)
	}
	return out[0]
}

// ask asks for one unit, for all free units, for one more than those, or for a random number.
func (c *steppedClient) ask() {
	free := c.decide(0).Remaining
	c.decide([]int64{1, free, free + 1, 1 + c.Int64N(free+1)}[c.IntN(4)])
}

func (c *steppedClient) takeAll() {
	if free := c.decide(0).Remaining; free > 0 {
		c.decide(free)
	}
}

// wait advances real time by a random span.
func (c *steppedClient) wait() {
	c.real += []int64{c.decide(0).RetryAfter.Microseconds(), 1, c.Int64N(1000), c.Int64N(c.limit.Period().Microseconds()), 0}[c.IntN(5)]
}

// stepBack sets the clock back, and sometimes checks the retry time.
func (c *steppedClient) stepBack() {
	period := c.limit.Period().Microseconds()
	before := c.decide(0)
	back := []int64{1, 1000, c.Int64N(period), c.Int64N(period), period, c.Int64N(20 * period)}[c.IntN(6)]
	c.offset -= min(back, c.clock()/2)
	c.steps++
	if after := c.decide(0); after.Used < before.Used {
		c.Fatalf("%d used, and %d after a step back", before.Used, after.Used)
	}
	if c.IntN(2) == 0 {
		c.mustWaitAsPromised()
	}
}

// mustWaitAsPromised checks that the current waiting times are within the promised bounds. It also checks
// that one unit is admitted after RetryAfter and not before, although other requests are denied until then.
func (c *steppedClient) mustWaitAsPromised() {
	c.Helper()
	d := c.decide(0)
	longest := c.limit.Period()
	switch r := newRule(c.limit); c.limit.Algorithm {
	case SlidingWindow:
		longest *= 2
	case TokenBucket:
		longest = refill(&c.limit.Spec)
	case ByCalendar:
		longest = duration(exactWindow{start: c.clock()}.end(r) - r.start(c.clock()))
	}
	if d.ResetAfter > longest || d.RetryAfter > longest {
		c.Fatalf("whole after %v, next after %v, want at most %v", d.ResetAfter, d.RetryAfter, longest)
	}
	if d.RetryAfter == 0 {
		return
	}
	end := c.real + d.RetryAfter.Microseconds()
	for range 3 {
		c.real += c.Int64N(end - c.real)
		if again := c.decide(1); !again.Over || again.RetryAfter != time.Duration(end-c.real)*time.Microsecond {
			c.Fatalf("%+v, want a denial until %d µs later", again, end-c.real)
		}
	}
	if c.real = end; c.decide(1).Over {
		c.Fatalf("denied after %v", d.RetryAfter)
	}
}

// checkBounds checks the sum of every sequence of admissions.
func (c *steppedClient) checkBounds() {
	r := newRule(c.limit)
	for i, from := range c.admitted {
		units := new(big.Rat)
		for j, to := range c.admitted[i:] {
			units = sum(units, rat(uint64(to.units)))
			span, steps := to.at-from.at, c.stepped[i+j]-c.stepped[i]
			if bound := r.bound(span, steps); bound != nil && units.Cmp(bound) > 0 {
				c.Fatalf("%s units are admitted within %d µs and %d steps, want at most %s", units.FloatString(0), span, steps, bound.FloatString(3))
			}
		}
	}
}

// promises are the bounds in docs/algorithms.md, in terms of the limit L, the burst B and the
// period W.
var promises = map[Algorithm]string{
	FixedWindow:   "2L in less than a period, across the end of a window",
	FirstHit:      "2L - 1 in less than a period",
	ByCalendar:    "2L in less than a window",
	SlidingWindow: "L in a window; L + L · t / W in any time t up to a period",
	TokenBucket:   "B + L · t / W in any time t",
	SlidingLog:    "L in any time of a period",
}

// bound returns the promised bound for a span with a number of steps back, or nil if there is
// none.
func (r *rule) bound(span, steps int64) *big.Rat {
	refill := new(big.Rat).Mul(r.amount, big.NewRat(span, r.period))
	switch {
	case r.limit.Algorithm == TokenBucket:
		return sum(r.size, refill)
	case r.limit.Algorithm == SlidingLog && span < r.period:
		return r.amount
	case r.limit.Algorithm == SlidingWindow && span <= r.period:
		return sum(r.amount, refill)
	case r.limit.Algorithm == FirstHit && span < r.period:
		return difference(sum(r.amount, r.amount), rat(1))
	case r.limit.Algorithm == FixedWindow || r.limit.Algorithm == ByCalendar:
		return new(big.Rat).Mul(r.amount, rat(uint64(2+span/r.period+steps)))
	}
	return nil
}
