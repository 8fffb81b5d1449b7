package rls

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
)

// witness is a store that notes when it admitted requests, in microseconds
// since the epoch.
type witness struct {
	mu       sync.Mutex
	store    limiter.Store
	now      time.Time // of the last decision
	admitted []int64
}

func newWitness() *witness {
	w := new(witness)
	w.store = memory.New(memory.Options{Now: func() time.Time {
		w.now = time.Now()
		return w.now
	}})
	return w
}

func (w *witness) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	denied, err = w.store.Decide(ctx, hits, out)
	if !denied && err == nil {
		w.admitted = append(w.admitted, w.now.UnixMicro())
	}
	return denied, err
}

// Workers without Envoy share a limit: each asks for its slot and comes back
// when it is told to. All get one, soon, without a crowd of wasted tries, and
// never more at a time than the limit allows.
func TestWorkersWaitForTheirSlots(t *testing.T) {
	const (
		workers = 100
		perUnit = 20        // slots
		unit    = 1_000_000 // a second
	)
	var algorithms sync.WaitGroup // which wait together, not one after the other
	defer algorithms.Wait()
	for _, tc := range []struct {
		algorithm string
		wasted    int // most tries of a worker that may be in vain
		// exceeds reports whether the last of some admissions was one too many.
		exceeds func(admitted []int64) bool
	}{
		{"algorithm: fixed_window", 6, func(admitted []int64) bool {
			last := admitted[len(admitted)-1]
			return since(admitted, last-last%unit) > perUnit
		}},
		{"anchor: first_hit", 6, func(admitted []int64) bool {
			start := 0 // of the last window
			for i := range admitted {
				if admitted[i] >= admitted[start]+unit {
					start = i
				}
			}
			return len(admitted)-start > perUnit
		}},
		// All come back after whole seconds, and find a window half full of what
		// was admitted one second ago.
		{"algorithm: sliding_window", 12, func(admitted []int64) bool {
			last := admitted[len(admitted)-1]
			start := last - last%unit
			current := since(admitted, start)
			previous := since(admitted, start-unit) - current
			return previous*(start+unit-last)+current*unit > perUnit*unit
		}},
		{"algorithm: token_bucket", 6, func(admitted []int64) bool {
			last := admitted[len(admitted)-1]
			for i, first := range admitted {
				if int64(len(admitted)-i-perUnit)*unit > perUnit*(last-first) {
					return true
				}
			}
			return false
		}},
	} {
		algorithms.Go(func() {
			t.Run(tc.algorithm, func(t *testing.T) {
				rules := fmt.Sprintf("{domain: jobs, descriptors: [{key: slot, rate_limit: {unit: second, requests_per_unit: %d, %s}}]}", perUnit, tc.algorithm)
				admitted := sendWorkers(t, rules, workers, tc.wasted)
				if len(admitted) != workers {
					t.Errorf("%d slots were given, want %d", len(admitted), workers)
				}
				for i := range admitted {
					if tc.exceeds(admitted[:i+1]) {
						t.Errorf("slot %d is above the limit, given at %d µs", i+1, admitted[:i+1])
					}
				}
			})
		})
	}
}

// sendWorkers sends so many workers for a slot each, and says when slots were
// given.
func sendWorkers(t *testing.T, rules string, workers, mayWaste int) (admitted []int64) {
	opts, witness := options(t, rules), newWitness()
	opts.store = witness
	server := httptest.NewServer(opts.service().JSONHandler())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			wasted, err := awaitSlot(ctx, server)
			if err != nil || wasted > mayWaste {
				t.Errorf("worker %d: %d wasted tries, want at most %d (error: %v)", worker, wasted, mayWaste, err)
			}
		})
	}
	wg.Wait()
	return witness.admitted
}

// since counts the times, which are in order, from start on.
func since(times []int64, start int64) (n int64) {
	for i := len(times) - 1; i >= 0 && times[i] >= start; i-- {
		n++
	}
	return n
}

// awaitSlot asks for a slot until it gets one, waits before each further try as
// it was told, and returns how many tries were in vain.
func awaitSlot(ctx context.Context, server *httptest.Server) (wasted int, err error) {
	for {
		wait, err := askForSlot(ctx, server)
		if err != nil || wait == 0 {
			return wasted, err
		}
		wasted++
		select {
		case <-ctx.Done():
			return wasted, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// askForSlot returns 0 if it got the slot, else how long to wait.
func askForSlot(ctx context.Context, server *httptest.Server) (wait time.Duration, err error) {
	const body = `{"domain": "jobs", "descriptors": [{"entries": [{"key": "slot", "value": "gpu"}]}]}`
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	response, err := server.Client().Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return 0, nil
	case http.StatusTooManyRequests:
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil || seconds < 1 {
			return 0, fmt.Errorf("told to retry after %q (error: %v)", response.Header.Get("Retry-After"), err)
		}
		return time.Duration(seconds) * time.Second, nil
	default:
		return 0, fmt.Errorf("status %d", response.StatusCode)
	}
}
