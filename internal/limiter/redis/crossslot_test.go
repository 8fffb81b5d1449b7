package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/redis/queue"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// pair is a store on two Redis instances, with a clock that moves only by forward.
type pair struct {
	*Store
	first, second *miniredis.Miniredis
	micros        atomic.Int64
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{first: miniredis.RunT(t), second: miniredis.RunT(t)}
	p.micros.Store(time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC).UnixMicro())
	p.Store = open(t, Options{Main: at(p.first.Addr()), DenyMemory: 1 << 20, PerSecond: &Server{Addr: p.second.Addr()}, Now: p.now})
	return p
}

func (p *pair) now() time.Time          { return time.UnixMicro(p.micros.Load()) }
func (p *pair) forward(d time.Duration) { p.micros.Add(d.Microseconds()) }

// perSeconds returns a limit whose counters are in the second Redis. Its window lasts longer than any test.
func perSeconds(amount uint64) *limiter.Limit {
	return storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Second, UnitMultiplier: 1_000_000})
}

// TestCrossSlotIsDecidedAsByTheModel sends random requests one after the other. Decisions that
// involve both instances must equal the decisions of a single store.
func TestCrossSlotIsDecidedAsByTheModel(t *testing.T) {
	p := newPair(t)
	plain := Options{Main: at(p.first.Addr()), PerSecond: &Server{Addr: p.second.Addr()}, Now: p.now}
	other := open(t, plain)
	c := &checked{T: t, store: p, plain: other}
	model := storetest.NewModel(p.now)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	var limits []*limiter.Limit
	for _, unit := range []limiter.Unit{limiter.Second, limiter.Minute} {
		for _, spec := range []limiter.Spec{{}, {Algorithm: limiter.FirstHit}, {Algorithm: limiter.ByCalendar, TimeZone: "Asia/Kathmandu"}, {Algorithm: limiter.SlidingWindow}, {Algorithm: limiter.TokenBucket}, {Algorithm: limiter.Concurrency}, {Algorithm: limiter.SlidingLog}} {
			for _, mode := range []limiter.Mode{limiter.Enforced, limiter.Shadow, limiter.Quota} {
				spec.Unit, spec.UnitMultiplier, spec.RequestsPerUnit, spec.Mode, spec.DenyFor = unit, 30, 7, mode, 0
				if spec.Algorithm.Takes(limiter.DenyForOption) {
					spec.DenyFor = 20 * time.Second
				}
				limits = append(limits, storetest.Must(spec))
			}
		}
	}
	denials := 0
	for n := range 2000 {
		if random.IntN(3) == 0 {
			p.forward(time.Duration(random.IntN(20_000)) * time.Millisecond)
		}
		hits := make([]limiter.Hit, 1+random.IntN(5))
		always := map[string]bool{} // whether the hits on each counter are always charged; a mix is not exact, see crossSlot
		for i := range hits {
			l := random.IntN(len(limits))
			key := fmt.Sprintf("%d %d", l/3, random.IntN(2))
			if _, known := always[key]; !known {
				always[key] = random.IntN(4) == 0
			}
			hits[i] = hit(key, limits[l], uint64(random.IntN(4)))
			hits[i].Refund = always[key] && random.IntN(2) == 0
			hits[i].Always = always[key] && !hits[i].Refund
			if hits[i].Limit.Mode != limiter.Enforced {
				hits[i].Group = uint8(random.IntN(3))
			}
			if hits[i].Limit.HoldKey() != "" {
				hits[i].Hold = bytes.Repeat([]byte{byte(random.IntN(12))}, limiter.HoldSize)
			}
		}
		got, want := make([]limiter.Decision, len(hits)), make([]limiter.Decision, len(hits))
		denied, err := c.Decide(t.Context(), hits, got)
		rest(p.Store) // all releases must be complete before the clock moves and before another store is used
		rest(other)
		wantDenied, _ := model.Decide(t.Context(), hits, want)
		for i := range hits {
			if hits[i].Limit.Algorithm == limiter.SlidingLog { // after a release, its times may be too late
				got[i].ResetAfter = min(got[i].ResetAfter, want[i].ResetAfter)
				got[i].RetryAfter = min(got[i].RetryAfter, want[i].RetryAfter)
			}
		}
		if err != nil || denied != wantDenied || !slices.Equal(got, want) {
			t.Errorf("request %d of seed %d: denied %v, want %v, error %v", n, seed, denied, wantDenied, err)
			for i, h := range hits {
				t.Logf("%s of %+v, cost %d, refund %v, always %v:\n got %+v\nwant %+v", h.Key, h.Limit.Spec, h.Cost, h.Refund, h.Always, got[i], want[i])
			}
			return
		}
		if denied {
			denials++
		}
	}
	if denials < 200 {
		t.Errorf("only %d requests were denied", denials)
	}
}

func TestCrossSlotOfWhichAPartFails(t *testing.T) {
	p := newPair(t)
	hits := []limiter.Hit{hit("year", perYear, 5), hit("second", perSeconds(10), 1)}
	mustDecide(t, p, hits...)
	p.second.SetError("LOADING Redis is loading the dataset in memory")
	if _, err := p.Decide(t.Context(), hits, make([]limiter.Decision, 2)); !errors.Is(err, limiter.ErrUnavailable) || !strings.Contains(err.Error(), "LOADING") {
		t.Errorf("got error %v, want LOADING", err)
	}
	if state := p.State(); state.Kind != string(conn.KindLoading) || state.FailingSince.IsZero() {
		t.Errorf("state %+v, want it to fail with kind %s", state, conn.KindLoading)
	}
	p.second.SetError("")
	if out, _ := mustDecide(t, p, hits...); out[0].Used != 10 || out[1].Used != 2 {
		t.Errorf("%d and %d used, want 10 and 2: the request that failed is not counted", out[0].Used, out[1].Used)
	}
}

// If one Redis denies a request, the charge on the other Redis is released: before the caller
// gets the answer, unless its deadline is too close or it has left, and before the store is
// closed.
func TestACrossSlotGivesBack(t *testing.T) {
	for _, what := range []string{"its caller waits", "its caller cannot wait", "its caller leaves", "the store is closed"} {
		t.Run(what, func(t *testing.T) {
			p := newPair(t)
			limit := perSeconds(1)
			mustAsk(t, p, "second", limit)
			g := newGate(t, p.Store)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			answer, drained := make(chan error), make(chan struct{})
			go func() {
				hits := []limiter.Hit{hit("year", perYear, 5), hit("second", limit, 1)}
				denied, err := p.Decide(ctx, hits, make([]limiter.Decision, 2))
				copy(hits[0].Key, "xxxx") // the caller owns the memory again
				if err == nil && !denied {
					err = errors.New("it is admitted")
				}
				answer <- err
			}()
			<-g.keys // the charge
			switch what {
			case "its caller leaves":
				if leave(); !errors.Is(<-answer, context.Canceled) {
					t.Error("its caller left, but has another answer than that")
				}
			case "the store is closed":
				go func() {
					defer close(drained)
					p.main.queues.Close()
					p.main.queues.Idle()
				}()
				p.untilClosing(t)
				hits := []limiter.Hit{hit("year", perYear, 1), hit("second", limit, 1)}
				if _, err := p.Decide(ctx, hits, make([]limiter.Decision, 2)); !errors.Is(err, queue.ErrClosed) {
					t.Errorf("got error %v, want %v", err, queue.ErrClosed)
				}
			}
			g.pass <- struct{}{}
			<-g.keys // the release
			if what == "its caller cannot wait" {
				leave()
				testenv.OK(t, <-answer)
			}
			g.pass <- struct{}{}
			switch what {
			case "its caller waits":
				testenv.OK(t, <-answer)
			case "the store is closed":
				testenv.OK(t, <-answer)
				<-drained
			default:
				rest(p.Store)
			}
			p.first.FastForward(time.Millisecond) // the time for which unused counters are kept
			if keys := p.first.Keys(); len(keys) != 0 {
				t.Errorf("%q are left of a denied request", keys)
			}
		})
	}
}
