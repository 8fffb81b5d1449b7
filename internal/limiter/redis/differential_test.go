package redis

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// TestDifferential compares a real Redis with the model over random histories. Each run has new
// histories of WEIR_DIFFERENTIAL decisions; `make differential` runs a million.
func TestDifferential(t *testing.T) {
	decisions := differentialDecisions(t)
	const stores = 4 // each with its own clock and its own database of Redis
	r := testenv.RedisServer(t)
	var remembered atomic.Int64
	t.Run("histories", func(t *testing.T) {
		for n := range stores {
			seed := rand.Uint64()
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				storetest.Differential(t, func(t *testing.T, now func() time.Time) limiter.CounterStore {
					o := Options{Main: Server{Addr: r.Addr(), DB: n, Timeout: long}, Now: now}
					if n == 0 {
						o.Main.Network, o.Main.Addr = "unix", r.Socket()
					}
					if n%2 == 0 {
						return open(t, o)
					}
					c := openChecked(t, o)
					t.Cleanup(func() { remembered.Add(c.remembered.Load()) })
					return c
				}, seed, (decisions+stores-1)/stores)
			})
		}
	})
	if remembered.Load() == 0 {
		t.Error("nothing was denied from memory")
	}
}

// differentialDecisions returns the number of decisions to compare.
func differentialDecisions(t *testing.T) int {
	t.Helper()
	text := os.Getenv("WEIR_DIFFERENTIAL")
	if text == "" {
		return 20_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("WEIR_DIFFERENTIAL=%s is no number of decisions", text)
	}
	return n
}

// TestDifferentialBatches compares batches on few counters with limiter.Decide, so that all,
// some or none of a batch's hits fit together.
func TestDifferentialBatches(t *testing.T) {
	h := newHistory(t, testenv.RedisServer(t).Addr())
	for decisions := differentialDecisions(t); h.decided < decisions && !t.Failed(); {
		h.pass()
		h.decide(h.requests())
	}
	if sum := h.together + h.single; h.together < sum/10 || h.single < sum/10 {
		t.Errorf("%d requests were decided together and %d one after the other, want a tenth of each", h.together, h.single)
	}
	t.Logf("seed %d: %d random decisions, %d requests together and %d one after the other", h.seed, h.decided, h.together, h.single)
}

// history is a random history of batches.
type history struct {
	*testing.T
	*rand.Rand
	seed                      uint64
	store                     *Store
	now                       time.Time
	model                     *storetest.Model
	limitOf                   map[string]*limiter.Limit // one of the limits of each key
	decided, together, single int
}

// newHistory starts a history in a Redis.
func newHistory(t *testing.T, addr string) *history {
	t.Helper()
	seed := rand.Uint64()
	h := &history{
		T: t, Rand: rand.New(rand.NewPCG(seed, 0)), seed: seed,
		now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), limitOf: map[string]*limiter.Limit{},
	}
	now := func() time.Time { return h.now }
	h.store, h.model = open(t, Options{Main: at(addr), Now: now}), storetest.NewModel(now)
	return h
}

// pass advances the clock, leaves it, or sets it back. Afterwards, no state may expire within the
// next seconds, because Redis would forget the state although the test's clock stands still.
func (h *history) pass() {
	switch n := h.IntN(100); {
	case n < 40:
		h.now = h.now.Add(time.Duration(h.IntN(20_000_000)) * time.Microsecond)
	case n < 45:
		h.now = h.now.Truncate(time.Hour).Add(time.Hour)
	case n < 46:
		h.now = h.now.Add(time.Duration(h.Int64N(int64(40 * 24 * time.Hour))))
	case n < 49:
		h.renew()
		h.now = h.now.Add(-time.Duration(h.Int64N(int64(3 * time.Hour))))
	}
	for again := true; again; {
		again = false
		for key, state := range h.model.Counters {
			left := h.limitOf[key].Expiry(*state) - h.now.UnixMicro()
			if left > 0 && left < (10*time.Second).Microseconds() {
				h.now, again = h.now.Add(time.Duration(left)*time.Microsecond), true
			}
		}
	}
}

// renew charges all counters. Otherwise Redis may have forgotten a counter of an earlier window
// to which the clock steps back.
func (h *history) renew() {
	var hits []limiter.Hit
	for key, limit := range h.limitOf {
		hit := limiter.Hit{Limit: limit, Key: []byte(key), Cost: 1, Always: true}
		if limit.HoldKey() != "" {
			hit.Hold = h.name(1 << 60)
		}
		hits = append(hits, hit)
	}
	if len(hits) > 0 {
		h.decide([][]limiter.Hit{hits})
	}
}

// requests draws a batch: of one algorithm or of all, with ordinary hits or with all kinds of
// hits, on few counters or on many.
func (h *history) requests() (requests [][]limiter.Hit) {
	kinds := []limiter.Spec{
		{}, {Algorithm: limiter.SlidingWindow}, {Algorithm: limiter.TokenBucket}, {Algorithm: limiter.FirstHit},
		{Algorithm: limiter.Concurrency}, {Algorithm: limiter.SlidingLog},
		{Algorithm: limiter.ByCalendar, TimeZone: "Europe/Berlin"},
	}
	if h.IntN(3) > 0 {
		n := h.IntN(len(kinds))
		kinds = kinds[n : n+1]
	}
	straight := h.IntN(2) == 0 // hits that straight.lua charges if the counters have room
	if straight {
		kinds = kinds[:1]
	}
	ordinary, users, same := straight || h.IntN(2) == 0, 1+h.IntN(20), h.IntN(4) == 0
	for range 1 + h.IntN(20) {
		if same && len(requests) > 0 {
			requests = append(requests, requests[0])
			continue
		}
		var hits []limiter.Hit
		for range 1 + h.IntN(4) {
			user := h.IntN(users)
			if straight {
				user *= 2
			}
			hits = append(hits, h.hit(kinds[h.IntN(len(kinds))], user, ordinary))
		}
		requests = append(requests, hits)
	}
	return requests
}

// hit draws a hit of a user. Users with even numbers have room for most hits.
func (h *history) hit(spec limiter.Spec, user int, ordinary bool) limiter.Hit {
	spec.RequestsPerUnit, spec.Unit = 5, []limiter.Unit{limiter.Minute, limiter.Hour}[user/2%2]
	if user%2 == 0 && spec.Algorithm == limiter.TokenBucket {
		spec.Burst = 2_000_000 // a unit still takes seconds to drain
	} else if spec.Algorithm == limiter.SlidingLog && user%2 == 0 {
		spec.RequestsPerUnit = 5000
	} else if user%2 == 0 {
		spec.RequestsPerUnit = 2_000_000
	}
	if !ordinary && spec.Algorithm.Takes(limiter.DenyForOption) && h.IntN(2) == 0 { // so that bans begin, are shortened, and end early
		spec.DenyFor = []time.Duration{time.Minute, time.Hour, 30 * 24 * time.Hour}[h.IntN(3)]
	}
	cost := 1 + h.Uint64N(3)
	if user%2 == 0 && h.IntN(10) == 0 {
		cost = 1 + h.Uint64N(100_000)
	}
	hit := limiter.Hit{Cost: cost}
	if !ordinary {
		switch h.IntN(8) {
		case 0:
			hit.Cost = 0
		case 1:
			hit.Refund = true
		case 2:
			hit.Always = true
		}
		if hit.Mode = limiter.Mode(h.IntN(3)); hit.Mode != limiter.Enforced {
			hit.Group = uint8(h.IntN(3))
		}
		if h.IntN(10) == 0 && spec.Algorithm != limiter.TokenBucket { // not for buckets: Redis may have forgotten a bucket that is empty at the other amount
			spec.RequestsPerUnit *= 2
		}
	}
	hit.Limit = storetest.Must(spec)
	if hit.Limit.HoldKey() != "" {
		hit.Hold, hit.Refund = h.name(12), h.IntN(3) == 0
	}
	hit.Key = hit.Limit.AppendKind(limiter.Keys{}.Append(nil, "history", []limiter.Entry{{Key: "user", Value: strconv.Itoa(user)}}, nil))
	h.limitOf[string(hit.Key)] = hit.Limit
	return hit
}

// name draws one of n names of holds.
func (h *history) name(names uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, limiter.HoldSize-8), h.Uint64N(names))
}

// decide lets the store and the model decide a batch.
func (h *history) decide(requests [][]limiter.Hit) {
	c := decideBatch(h.T, h.store, requests, h.model)
	h.decided += c.Batch.Hits()
	if c.Reply.Final != nil {
		h.together += len(requests)
	} else {
		h.single += len(requests)
	}
}
