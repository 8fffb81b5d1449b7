package redisstore

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/redisstore/redisconn"
	"weir/internal/testenv"
)

// TestFaultsAdmitNoMoreThanTheLimit does something to the Redis of two processes
// again and again while many callers share a limit, with batches and a memory of
// denials. A call whose reply was lost may have been counted, and is not
// repeated: so fewer may be admitted, and never more.
func TestFaultsAdmitNoMoreThanTheLimit(t *testing.T) {
	for _, c := range []struct {
		name      string
		opTimeout time.Duration
		do        func(t *testing.T, r *testenv.Redis, admin *redis.Client)
		fails     bool // some requests fail
	}{
		{"connections are cut", long, func(t *testing.T, _ *testenv.Redis, admin *redis.Client) {
			do(t, admin, "client", "kill", "type", "normal", "skipme", "yes")
		}, true},
		{"scripts are forgotten", long, func(t *testing.T, _ *testenv.Redis, admin *redis.Client) {
			do(t, admin, "script", "flush")
		}, false},
		{"Redis stands still", 20 * time.Millisecond, func(_ *testing.T, r *testenv.Redis, _ *redis.Client) {
			r.Pause()
			<-time.After(50 * time.Millisecond) // longer than calls may take
			r.Resume()
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := testenv.RedisServer(t)
			admin := connect(t, r)
			o := Options{Main: redisconn.Options{URL: r.Addr(), OpTimeout: c.opTimeout}, DenyMemory: 1 << 20}
			stores := [2]*Store{open(t, o), open(t, o)}
			o.Main.OpTimeout, o.DenyMemory = long, 0
			admitUnderFaults(t, stores, open(t, o), func() { c.do(t, r, admin) }, c.fails)
		})
	}
}

// admitUnderFaults has many callers of two stores use up a limit while there are
// faults, and one of a patient store what is left.
func admitUnderFaults(t *testing.T, stores [2]*Store, patient *Store, fault func(), fails bool) {
	const amount = 3000
	tenant, user := hit("tenant", yearly(amount), 1), hit("user", yearly(2*amount), 1)
	var admitted, denied, failed atomic.Int64
	decide := func(s *Store) {
		var out [2]limiter.Decision
		switch over, err := s.Decide(t.Context(), []limiter.Hit{user, tenant}, out[:]); {
		case err != nil:
			failed.Add(1)
			<-time.After(time.Millisecond) // the breaker may be open
		case over:
			denied.Add(1)
		default:
			admitted.Add(1)
		}
	}

	done := make(chan struct{})
	var callers, faults sync.WaitGroup
	faults.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
				fault()
			}
		}
	})
	for i := range 64 {
		callers.Go(func() {
			for range 100 {
				decide(stores[i%2])
			}
		})
	}
	callers.Wait()
	close(done)
	faults.Wait()
	if got := failed.Load() > 0; got != fails {
		t.Errorf("requests failed: %t, want %t", got, fails)
	}

	// What is left of the limit is admitted, by a process that waits however busy the
	// machine is.
	for range 2 * amount {
		if denied.Load() > 0 {
			break
		}
		decide(patient)
	}
	if denied.Load() == 0 {
		t.Fatal("the limit is never reached")
	}
	var out [2]limiter.Decision
	if _, err := patient.Decide(t.Context(), []limiter.Hit{hit("user", user.Limit, 0), hit("tenant", tenant.Limit, 0)}, out[:]); err != nil {
		t.Fatal(err)
	}
	if n := admitted.Load(); n > amount || out[1].Used != amount || out[0].Used != amount {
		t.Errorf("%d were admitted, %d failed; the tenant has used %d and the user %d, want %d each and no more admitted", n, failed.Load(), out[1].Used, out[0].Used, amount)
	}
	t.Logf("%d admitted, %d failed, %d denied", admitted.Load(), failed.Load(), denied.Load())
}
