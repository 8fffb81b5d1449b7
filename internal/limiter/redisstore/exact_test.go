package redisstore

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// TestFaultsAdmitNoMoreThanTheLimit cuts the connections of two processes again
// and again while many callers share a limit, with batches and a memory of
// denials. A call whose reply was lost may have been counted, and is not
// repeated: so fewer may be admitted, and never more.
func TestFaultsAdmitNoMoreThanTheLimit(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	stores := []*Store{
		open(t, Options{URL: r.Addr(), OpTimeout: long, DenyMemory: 1 << 20}),
		open(t, Options{URL: r.Addr(), OpTimeout: long, DenyMemory: 1 << 20}),
	}
	const amount = 3000
	tenant, user := hit("tenant", yearly(amount), 1), hit("user", yearly(2*amount), 1)
	var admitted, denied, failed atomic.Int64
	decide := func(i int) {
		var out [2]limiter.Decision
		switch over, err := stores[i%2].Decide(t.Context(), []limiter.Hit{user, tenant}, out[:]); {
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
				do(t, admin, "client", "kill", "type", "normal", "skipme", "yes")
			}
		}
	})
	for i := range 64 {
		callers.Go(func() {
			for range 100 {
				decide(i)
			}
		})
	}
	callers.Wait()
	close(done)
	faults.Wait()
	if failed.Load() == 0 {
		t.Error("no request failed, so that nothing was tried")
	}

	// What is left of the limit is admitted once the connections hold.
	for range 2 * amount {
		if denied.Load() > 0 {
			break
		}
		eventually(t, "a request is decided", func() bool {
			before := failed.Load()
			decide(0)
			return failed.Load() == before
		})
	}
	if denied.Load() == 0 {
		t.Fatal("the limit is never reached")
	}
	var out [2]limiter.Decision
	eventually(t, "the other process reads the counters", func() bool { // its breaker may be open
		_, err := stores[1].Decide(t.Context(), []limiter.Hit{hit("user", user.Limit, 0), hit("tenant", tenant.Limit, 0)}, out[:])
		return err == nil
	})
	if n := admitted.Load(); n > amount || out[1].Used != amount || out[0].Used != amount {
		t.Errorf("%d were admitted, %d failed; the tenant has used %d and the user %d, want %d each and no more admitted", n, failed.Load(), out[1].Used, out[0].Used, amount)
	}
	t.Logf("%d admitted, %d failed, %d denied", admitted.Load(), failed.Load(), denied.Load())
}
