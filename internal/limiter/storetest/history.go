package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/internal/limiter"
)

// testHistories runs short random histories. One seed is random. To repeat its history, add this
// seed to the list.
func testHistories(t *testing.T, open func(t *testing.T, now func() time.Time) limiter.CounterStore) {
	t.Helper()
	decisions := 10_000
	if testing.Short() {
		decisions = 2000
	}
	for _, seed := range []uint64{1, 2, rand.Uint64()} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			Differential(t, open, seed, decisions)
		})
	}
}

// Differential compares a store with the model, decision by decision, over at least the given
// number of random decisions, and returns their number. Several players send requests
// concurrently, each on a few counters of its own, while the clock advances, stands still or
// steps back.
func Differential(t *testing.T, open func(t *testing.T, now func() time.Time) limiter.CounterStore, seed uint64, decisions int) (decided int) {
	t.Helper()
	const players, requests = 16, 4 // requests of each player per tick of the clock
	f := newFixture(t, open)
	time := &timeline{rand.New(rand.NewPCG(seed, 0)), f.clock, f.clock.now()}
	all := make([]*player, players)
	for i := range all {
		all[i] = newPlayer(seed, i, f, time)
	}
	for decided < decisions && !t.Failed() {
		stepBack := time.tick()
		var round sync.WaitGroup
		for _, p := range all {
			round.Go(func() {
				for range requests {
					p.play(p.request())
				}
				if stepBack {
					p.play(p.renewal())
					p.lower()
					clear(p.reserved) // a store may have forgotten a record whose window ended
					p.play(p.renewal())
				}
			})
		}
		round.Wait()
		if stepBack {
			time.stepBack()
		}
		decided = 0
		for _, p := range all {
			decided += p.decided
		}
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
	return decided
}

// timeline moves the clock.
type timeline struct {
	*rand.Rand
	clock  *clock
	newest time.Time // latest time of the clock
}

// behind reports whether the clock has stepped back and has not caught up.
func (l *timeline) behind() bool { return l.clock.now().Before(l.newest) }

// tick advances or keeps the clock. It returns true if the caller must call stepBack later.
func (l *timeline) tick() (back bool) {
	now := l.clock.now()
	switch n := l.IntN(100); {
	case n < 30:
		now = now.Add(time.Duration(l.IntN(20_000_000)) * time.Microsecond)
	case n < 40:
		now = now.Truncate(time.Minute).Add(time.Minute)
	case n < 44:
		now = now.Truncate(time.Hour).Add(time.Hour)
	case n < 46:
		now = now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	case n < 47:
		now = now.Add(time.Duration(l.Int64N(int64(40 * 24 * time.Hour))))
	case n < 60 && l.behind():
		now = l.newest
	case n < 50:
		return true
	}
	l.set(now)
	return false
}

// stepBack sets the clock back, by seconds, hours or months. The caller must have played a renewal
// before, because a store may have forgotten a window that has ended.
func (l *timeline) stepBack() {
	most := []time.Duration{20 * time.Second, 2 * time.Hour, 2 * time.Hour, 100 * 24 * time.Hour}[l.IntN(4)]
	l.set(l.clock.now().Add(-time.Duration(l.Int64N(int64(most)))))
}

// set sets the clock, but never to a time shortly before the end of a window, because counters
// written there could expire in real time while the clock stands still.
func (l *timeline) set(now time.Time) {
	if next := now.Truncate(time.Minute).Add(time.Minute); next.Sub(now) < lifetime {
		now = next
	}
	l.clock.set(now)
	if now.After(l.newest) {
		l.newest = now
	}
}

// lifetime is the minimum time from the write of a counter to its expiry.
const lifetime = 10 * time.Second

// player draws requests and compares the decisions of the store and the model.
type player struct {
	*fixture
	*rand.Rand
	name     int
	time     *timeline
	model    *Model
	counters []counter
	reserved map[string][]byte // last reservation of each counter, by the counter's key
	decided  int
}

func newPlayer(seed uint64, name int, f *fixture, l *timeline) *player {
	p := &player{
		fixture: f, Rand: rand.New(rand.NewPCG(seed, uint64(name+1))), name: name,
		time: l, model: NewModel(f.clock.now), reserved: map[string][]byte{},
	}
	for a := range limiter.AlgorithmNames() {
		for _, c := range algorithms[limiter.Algorithm(a)].counters {
			c.key = fmt.Sprintf("player %d counter %d", name, len(p.counters))
			p.counters = append(p.counters, c)
		}
	}
	return p
}

// play lets the store and the model decide hits, and compares the decisions.
func (p *player) play(hits []limiter.Hit) {
	want, got := make([]limiter.Decision, len(hits)), make([]limiter.Decision, len(hits))
	wantDenied, _ := p.model.Decide(p.Context(), hits, want)
	denied, err := p.store.Decide(context.WithoutCancel(p.Context()), hits, got)
	p.decided += len(hits)
	for _, h := range hits {
		if h.Reservation != nil {
			p.reserved[string(h.Key)] = h.Reservation
		}
	}
	if err != nil || denied != wantDenied || !slices.Equal(got, want) {
		p.Errorf("player %d after %d decisions at %v: error %v, denied is %v, want %v",
			p.name, p.decided, p.clock.now().UTC(), err, denied, wantDenied)
		for i, h := range hits {
			p.Logf("hit %d %s:\n got %+v\nwant %+v", i, describe(h), got[i], want[i])
		}
	}
}

// renewal returns a request that charges every counter.
func (p *player) renewal() []limiter.Hit {
	var hits []limiter.Hit
	for i := range p.counters {
		c := &p.counters[i]
		hits = append(hits, always(c.key, c.amounts[c.amount][0], c.scale))
		if c.holds() {
			hits[i].Hold = name(p.Uint64()) // a new hold
		}
	}
	return hits
}

// lower lowers the amounts of some draining counters. The caller must have played a renewal before,
// because a store may have forgotten use that has drained at the old amount.
func (p *player) lower() {
	for i := range p.counters {
		c := &p.counters[i]
		c.amount = p.IntN(c.amount + 1)
	}
}

// request draws one to five hits after which no counter expires soon.
func (p *player) request() []limiter.Hit {
	for range 20 {
		var hits []limiter.Hit
		for range 1 + p.IntN(5) {
			hits = append(hits, p.hit(&p.counters[p.IntN(len(p.counters))]))
		}
		if !p.model.expiresSoon(hits) {
			return hits
		}
	}
	return request(peek(p.counters[0].key, p.limit(&p.counters[0])))
}

func (p *player) hit(c *counter) limiter.Hit {
	hit := take(c.key, p.limit(c), p.cost(c.scale))
	if c.holds() {
		hit.Hold, hit.Refund = name(p.Uint64N(8)), p.IntN(3) == 0
	}
	if hit.Limit.Mode != limiter.Enforced {
		hit.Group = uint8(p.IntN(3))
	}
	last := p.reserved[c.key]
	switch n := p.IntN(12); {
	case n == 0:
		hit.Always = true
	case n < 3:
		hit.Refund = true
	case n < 5 && hit.Limit.Settle != "" && hit.Cost > 0:
		hit.Reservation = reservation(c.key, p.Uint64())
	case n < 8 && last != nil: // often, the reservation was already settled, or its request was denied
		hit.Refund, hit.Reservation = true, last
	}
	return hit
}

func (p *player) cost(scale uint64) uint64 {
	switch n := p.IntN(100); {
	case n < 60:
		return p.Uint64N(4) * scale
	case n < 90:
		return p.Uint64N(4 * scale)
	case n < 97:
		return p.Uint64N(20) * scale
	default:
		large := []uint64{math.MaxUint32, limiter.MaxAmount - 1, 1 << 52, 1 << 63, math.MaxUint64}
		return large[p.IntN(len(large))]
	}
}

// counter is a key with limits of one algorithm and period, in several amounts and every mode.
type counter struct {
	key     string
	amounts [][]*limiter.Limit // by amount, then by mode
	banning [][]*limiter.Limit // the same limits with bans
	bans    bool               // whether the limits in banning are configured now
	amount  int                // index in amounts that is configured now, if the counter drains
	scale   uint64             // unit of most costs
}

// limit draws one of the limits of c. If the counter drains, only lower lowers the amount.
func (p *player) limit(c *counter) *limiter.Limit {
	amount := p.IntN(len(c.amounts))
	if algorithms[c.amounts[0][0].Algorithm].drains {
		if c.amount < len(c.amounts)-1 && p.IntN(50) == 0 {
			c.amount++
		}
		amount = c.amount
	}
	if p.IntN(100) == 0 {
		c.bans = !c.bans
	}
	modes := c.amounts[amount]
	if c.bans && p.IntN(4) > 0 { // otherwise the limit has no bans, like an exception's limit
		modes = c.banning[amount]
	}
	return modes[p.IntN(len(modes))]
}

// holds reports whether the counter counts holds.
func (c *counter) holds() bool { return c.amounts[0][0].HoldKey() != "" }

func newCounter(scale uint64, s limiter.Spec, amounts ...uint64) counter {
	if s.Algorithm.Takes(limiter.SettleOption) {
		s.Settle = "reservation"
	}
	c := counter{scale: scale, amounts: limitsOf(s, amounts)}
	if s.Algorithm.Takes(limiter.DenyForOption) {
		s.DenyFor = 11 * time.Minute
	}
	c.banning = limitsOf(s, amounts)
	return c
}

// limitsOf returns a limit for each amount and mode, by amount and then by mode.
func limitsOf(s limiter.Spec, amounts []uint64) (limits [][]*limiter.Limit) {
	for _, amount := range amounts {
		var modes []*limiter.Limit
		for _, mode := range []limiter.Mode{limiter.Enforced, limiter.Enforced, limiter.Shadow, limiter.Quota} {
			s.RequestsPerUnit, s.Mode = amount, mode
			modes = append(modes, Must(s))
		}
		limits = append(limits, modes)
	}
	return limits
}
