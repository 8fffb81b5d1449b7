package rlqs

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// join adds an Envoy with a demand to a server.
func (w *world) join(server int, demand float64) *envoy {
	e := &envoy{id: fmt.Sprint("envoy", len(w.envoys)), demand: demand, server: server}
	e.stream = w.servers[server].NewEnvoy(e.id)
	w.envoys = append(w.envoys, e)
	return e
}

// pass lets time pass without disturbance, and returns the number of admitted requests.
func (w *world) pass(lasts time.Duration) float64 {
	w.t.Helper()
	before := w.admitted
	for range lasts / (100 * time.Millisecond) {
		for _, e := range w.envoys {
			if e.known && !w.now.Before(e.next) {
				e.next = w.now.Add(reportEvery)
				w.report(e)
			}
		}
		w.step(100 * time.Millisecond)
		if w.level > w.bound() {
			w.t.Fatalf("%.1f of the limit are used, at most %.1f may be", w.level, w.bound())
		}
	}
	return w.admitted - before
}

// Two Envoys on two servers share 100 a second at 9 to 1. Nearly all of the limit is admitted, and
// shares follow the demands.
func TestSharesFollowDemand(t *testing.T) {
	w := newWorld(t, 1, 2, "unit: second, requests_per_unit: 100")
	large, small := w.join(0, 180), w.join(1, 20)
	w.pass(life + 20*time.Second)
	if got := w.pass(time.Minute); got < 0.95*6000 || small.size < 20 || small.size > 25 {
		t.Errorf("%.0f of 6000 were admitted in a minute, with shares of %.0f and %.0f", got, large.size, small.size)
	}
	large.demand, small.demand = 20, 180
	w.pass(life + 6*time.Second) // two reports, and the rest of the old share
	if got := w.pass(30 * time.Second); got < 0.95*3000 || small.size < 70 {
		t.Errorf("after a change of demand, %.0f of 3000 were admitted, with shares of %.0f and %.0f", got, large.size, small.size)
	}
	w.envoys = w.envoys[:1] // the other one dies
	large.demand = 200
	w.pass(2*life + 2*time.Second)
	testenv.Equal(t, large.size, 100, "the share of an Envoy alone")
	large.demand = 0
	w.pass(2*life + 2*time.Second)
	w.wantHome()
}

// Without Redis, shares last until they expire. Then the failure mode decides.
func TestFailureModes(t *testing.T) {
	for mode, want := range map[limiter.FailureMode]string{
		limiter.FailureError: "expired", limiter.FailureDeny: "denies", limiter.FailureAllow: "allows", limiter.FailureLocal: "50",
	} {
		w := newWorld(t, 1, 2, fmt.Sprintf("unit: second, requests_per_unit: 100, failure_mode: %s", mode))
		e := w.join(0, 200)
		w.pass(life + 20*time.Second)
		w.redis.SetError("LOADING")
		w.pass(8 * time.Second)
		if !w.now.Before(e.expires) || e.size != 100 {
			t.Errorf("%s: a share of %.0f is in force until %v, want until the end of its life", mode, e.size, e.expires.Sub(w.now))
		}
		w.pass(2 * life)
		got := fmt.Sprint(e.size)
		switch {
		case !w.now.Before(e.expires):
			got = "expired"
		case e.open:
			got = "allows"
		case e.size == 0:
			got = "denies"
		}
		testenv.Equal(t, got, want, "%s", mode)
	}
}

// An Envoy that never reads, one that reports too many buckets, and one that lies take nothing from another
// beyond a fair share. A bucket ID may contain any bytes. Requests for one without a rule are admitted.
func TestHostileEnvoys(t *testing.T) {
	w := newWorld(t, 1, 1, "unit: second, requests_per_unit: 100")
	w.pass(life + 2*time.Second)
	pool, now := w.servers[0], func() time.Time { return w.now }
	reports := func(e *Envoy, keys []string, denied uint64) {
		var message []byte
		for _, key := range keys {
			key, value, _ := strings.Cut(key, "=")
			entry := appendMessage(appendMessage(nil, 1, []byte(key)), 2, []byte(value))
			usage := appendUint(appendMessage(nil, 1, appendMessage(nil, 1, entry)), 4, denied)
			message = appendMessage(message, 2, usage)
		}
		r := new(report)
		testenv.OK(t, r.Decode(mem.BufferSlice{mem.SliceBuffer(appendMessage(message, 1, []byte("api")))}))
		r.domain = "api"
		pool.Report(w.now, e, r)
	}
	send := func(e *Envoy, keys []string, denied uint64) {
		reports(e, keys, denied)
		pool.Round(t.Context(), now)
	}
	deaf, good := pool.NewEnvoy("deaf"), pool.NewEnvoy("good")
	keys := []string{"unknown=\xff"}
	for i := range 2 * maxBuckets {
		keys = append(keys, fmt.Sprint("tenant=\xff", i))
	}
	for range 12 {
		send(deaf, []string{"tenant"}, math.MaxUint64)
		send(good, []string{"tenant"}, 1000)
		<-good.answers
		w.now = w.now.Add(reportEvery)
	}
	send(good, []string{"tenant"}, 1000)
	share := func(e *Envoy) (tokens uint64) {
		for _, m := range e.members {
			tokens += m.assigned
		}
		return tokens
	}
	if share(good) != 100 || share(deaf) != 0 {
		t.Errorf("shares of %d, and of %d for an Envoy that does not read, want 100 and 0", share(good), share(deaf))
	}
	log := new(testenv.Log)
	pool.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	flood := pool.NewEnvoy("flood")
	send(flood, keys, 1)
	send(flood, keys, 1)
	if text := log.String(); !strings.Contains(text, "envoy=flood domain=api buckets=1000 refused=1\n") || strings.Count(text, "\n") != 2 {
		t.Errorf("an Envoy with too many buckets is logged as:\n%s", text)
	}
	testenv.Equal(t, pool.unmatched, 1, "usages without a rule")
	if len(flood.members) != maxBuckets || len(<-flood.answers) == 0 {
		t.Errorf("an Envoy has %d buckets, want %d and an answer", len(flood.members), maxBuckets)
	}
	for range 190 {
		reports(pool.NewEnvoy("flood"), keys, 1)
	}
	late := pool.NewEnvoy("late")
	if send(late, []string{"tenant"}, 1); len(late.members) != 1 {
		t.Error("many Envoys with many buckets leave no room for another")
	}
}

// TestRedisReturns ends an outage in which servers assign shares without Redis. A server then asks for
// no more than its Envoys hold, until the shares that other servers assigned in that way have expired.
func TestRedisReturns(t *testing.T) {
	w := newWorld(t, 1, 2, "unit: second, requests_per_unit: 100, failure_mode: local")
	w.join(0, 180)
	w.join(1, 20)
	w.pass(life + 20*time.Second)
	w.redis.SetError("LOADING")
	w.envoys[1].demand = 180
	w.pass(time.Minute)
	w.redis.SetError("")
	w.pass(time.Minute)
}

// TestShares lists the shares by demand, with the tokens still held from earlier, larger shares.
func TestShares(t *testing.T) {
	w := newWorld(t, 1, 1, "unit: second, requests_per_unit: 100")
	first := w.join(0, 180)
	w.pass(life + 20*time.Second)
	w.join(0, 300)
	w.pass(6 * time.Second)
	list := w.servers[0].Shares(w.now, 2)
	if len(list) != 2 || list[0].Envoy != "envoy1" || list[1].Envoy != "envoy0" || list[0].Demand < list[1].Demand {
		t.Fatalf("got %+v", list)
	}
	s := list[1]
	if s.Domain != "api" || !slices.Equal(s.Entries, []limiter.Entry{{Key: "tenant", Value: "a"}}) || s.Key != "w1|api|tenant=a|1sq" {
		t.Errorf("got %+v", s)
	}
	if s.Share != first.size || s.Share > 60 || s.Held != 100 {
		t.Errorf("the first Envoy has a share of %.0f and holds %.0f, want half of the limit and all of it", s.Share, s.Held)
	}
	if list = w.servers[0].Shares(w.now, 1); len(list) != 1 || list[0].Envoy != "envoy1" {
		t.Errorf("the largest demand is of %+v", list)
	}
}

// TestIdleEnvoyReturns checks that an Envoy soon gets a share again, however long it was idle.
func TestIdleEnvoyReturns(t *testing.T) {
	for idle := 4 * time.Second; idle < 24*time.Second; idle += time.Second {
		w := newWorld(t, uint64(idle), 1, "unit: second, requests_per_unit: 100")
		e := w.join(0, 50)
		w.pass(life + 20*time.Second)
		e.demand = 0
		w.pass(idle)
		e.demand = 50
		if got := w.pass(5 * time.Second); got < 100 {
			t.Errorf("after %v without requests, %.0f are admitted in 5 s, want 100 or more", idle, got)
		}
	}
}
