package rls

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
)

// slow is a store that decides after a time, or says that its caller gave up.
type slow struct {
	limiter.Store
	time time.Duration
}

func (s slow) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	select {
	case <-time.After(s.time):
		return s.Store.Decide(ctx, hits, out)
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// slowly makes a service whose store takes a second.
func slowly(t *testing.T, change func(*setup)) *Service {
	t.Helper()
	o := options(t, rules)
	o.store = slow{memory.New(memory.Options{Now: clock}), time.Second}
	change(o)
	return o.service()
}

// decideOne decides a request of user a.
func decideOne(s *Service, wire []byte) error {
	c := s.calls.Get().(*call)
	defer s.release(c)
	c.wire = wire
	return s.decide(context.Background(), c)
}

func TestMoreRequestsThanAllowedAreRefused(t *testing.T) {
	wire := marshal(t, request(t, "user=a"))
	synctest.Test(t, func(t *testing.T) {
		s := slowly(t, func(o *setup) { o.MaxConcurrent = 2 })
		for range 2 { // the places are free again afterwards
			errs := make(chan error, 2)
			for range cap(errs) {
				go func() { errs <- decideOne(s, wire) }()
			}
			synctest.Wait()
			began := time.Now()
			expectError(t, decideOne(s, wire), codes.ResourceExhausted, "too many requests are being decided")
			if waited := time.Since(began); waited != 0 {
				t.Errorf("refused after %v, want at once", waited)
			}
			if got := httpStatus(decideOne(s, wire)); got != http.StatusServiceUnavailable {
				t.Errorf("/json answers with %d, want 503", got)
			}
			for range cap(errs) {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func TestRequestTimeout(t *testing.T) {
	wire := marshal(t, request(t, "user=a"))
	synctest.Test(t, func(t *testing.T) {
		s := slowly(t, func(o *setup) { o.Timeout = 300 * time.Millisecond })
		began := time.Now()
		expectError(t, decideOne(s, wire), codes.DeadlineExceeded, "the store did not decide within the deadline")
		if took := time.Since(began); took != 300*time.Millisecond {
			t.Errorf("it took %v, want the timeout", took)
		}
	})
}
