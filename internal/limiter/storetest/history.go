package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/limiter"
)

// testHistories compares the store with the model, decision by decision, over
// random requests on few counters. One seed is new each time; add it to the
// list to see its history again.
func testHistories(t *testing.T, open func(t *testing.T, now func() time.Time) limiter.Store) {
	t.Helper()
	requests := 1000
	if testing.Short() {
		requests = 200
	}
	for _, seed := range []uint64{1, 2, rand.Uint64()} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			f := newFixture(t, open)
			h := newHistory(seed, f.clock)
			for i := range requests {
				if h.tick() {
					h.compare(f, "renewal", h.renewal())
					h.stepBack()
				}
				h.compare(f, fmt.Sprint("request ", i), h.request())
				if t.Failed() {
					return
				}
			}
		})
	}
}

// history draws requests and times.
type history struct {
	*rand.Rand
	model    *Model
	clock    *clock
	newest   time.Time // the latest time the clock has shown
	counters []counter
}

// counter is a key with limits of one period: as configured now, as configured
// before, and in every mode.
type counter struct {
	key    string
	limits []*limiter.Limit
}

func newHistory(seed uint64, c *clock) *history {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 0)), model: NewModel(c.now), clock: c, newest: c.now()}
	for i, period := range []struct {
		unit       limiter.Unit
		multiplier uint32
	}{
		{limiter.Minute, 0}, {limiter.Minute, 1}, {limiter.Minute, 7}, {limiter.Hour, 1}, {limiter.Hour, 2}, {limiter.Day, 1},
	} {
		c := counter{key: fmt.Sprint("counter ", i)}
		for _, mode := range []limiter.Mode{limiter.Enforced, limiter.Enforced, limiter.Shadow, limiter.Quota} {
			for _, amount := range []uint32{0, 10, 20, 50, 100, 100} {
				c.limits = append(c.limits, Must(limiter.Spec{
					RequestsPerUnit: amount, Unit: period.unit, UnitMultiplier: period.multiplier, Mode: mode,
				}))
			}
		}
		h.counters = append(h.counters, c)
	}
	return h
}

// compare lets store and model decide hits.
func (h *history) compare(f *fixture, label string, hits []limiter.Hit) {
	want := make([]limiter.Decision, len(hits))
	denied, _ := h.model.Decide(f.Context(), hits, want)
	f.expect(fmt.Sprintf("%s at %v", label, h.clock.now().UTC()), step{hits: hits, want: want, denied: denied})
}

// behind tells whether the clock has stepped back and not caught up yet.
func (h *history) behind() bool { return h.clock.now().Before(h.newest) }

// tick moves the clock on, or leaves it. It tells whether to step back next.
func (h *history) tick() (back bool) {
	now := h.clock.now()
	switch n := h.IntN(100); {
	case n < 10:
		now = now.Add(time.Duration(h.IntN(20_000_000)) * time.Microsecond)
	case n < 14:
		now = now.Truncate(time.Minute).Add(time.Minute)
	case n < 16:
		now = now.Truncate(time.Hour).Add(time.Hour)
	case n < 17:
		now = now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	case n < 40 && h.behind():
		now = h.newest
	case n < 20 && !h.behind():
		return true
	}
	h.set(now)
	return false
}

// stepBack sets the clock back by up to two hours. Before, every counter must
// have been renewed: a store may have forgotten a window that has ended.
func (h *history) stepBack() {
	h.set(h.clock.now().Add(-time.Duration(h.Int64N(int64(2 * time.Hour)))))
}

// set sets the clock, but never close before the end of a window: what is
// written there could expire in real time while the clock stands.
func (h *history) set(now time.Time) {
	if next := now.Truncate(time.Minute).Add(time.Minute); next.Sub(now) < 10*time.Second {
		now = next
	}
	h.clock.set(now)
	if now.After(h.newest) {
		h.newest = now
	}
}

// renewal is a request that leaves every counter used in its current window.
func (h *history) renewal() []limiter.Hit {
	var hits []limiter.Hit
	for _, c := range h.counters {
		hits = append(hits, always(c.key, c.limits[0], 1))
	}
	return hits
}

// request draws one to five hits.
func (h *history) request() []limiter.Hit {
	var hits []limiter.Hit
	for range 1 + h.IntN(5) {
		c := &h.counters[h.IntN(len(h.counters))]
		hit := take(c.key, c.limits[h.IntN(len(c.limits))], h.cost())
		switch n := h.IntN(10); {
		case n == 0:
			hit.Always = true
		case n < 3 && !h.behind(): // a refund may empty a counter, which is as good as forgotten
			hit.Refund = true
		}
		hits = append(hits, hit)
	}
	return hits
}

func (h *history) cost() uint64 {
	switch n := h.IntN(100); {
	case n < 90:
		return h.Uint64N(4)
	case n < 97:
		return h.Uint64N(20)
	default:
		large := []uint64{math.MaxUint32, maxCount, 1 << 63, math.MaxUint64}
		return large[h.IntN(len(large))]
	}
}
