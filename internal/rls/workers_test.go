package rls

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"weir/internal/limiter/memory"
)

// Workers without Envoy share a limit: each asks for its slot and comes back
// when it is told to. All get one, soon, without a crowd of wasted tries, and
// never more at a time than the limit allows.
func TestWorkersWaitForTheirSlots(t *testing.T) {
	const (
		workers = 100
		perUnit = 20        // slots
		unit    = 1_000_000 // a second
	)
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
	}
}

// sendWorkers sends so many workers for a slot each, 1 ms after the other, and has each come
// back when it was told to, on a clock of their own. It says when slots were given, in
// microseconds since the epoch.
func sendWorkers(t *testing.T, rules string, workers, mayWaste int) (admitted []int64) {
	const body = `{"domain": "jobs", "descriptors": [{"entries": [{"key": "slot", "value": "gpu"}]}]}`
	at := now
	opts := options(t, rules)
	opts.store = memory.New(memory.Options{Now: func() time.Time { return at }})
	h := opts.service().JSONHandler()
	waiting := map[time.Time][]int{} // wasted tries of those who come at a time
	for worker := range workers {
		waiting[now.Add(time.Duration(worker)*time.Millisecond)] = []int{0}
	}
	for ; len(waiting) > 0 && at.Sub(now) < time.Minute; at = at.Add(time.Millisecond) {
		for _, wasted := range waiting[at] {
			w := post(h, http.MethodPost, body)
			if w.Code == http.StatusOK {
				admitted = append(admitted, at.UnixMicro())
				continue
			}
			seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
			if w.Code != http.StatusTooManyRequests || err != nil || seconds < 1 || wasted == mayWaste {
				t.Fatalf("status %d, told to retry after %q, after %d wasted tries, want at most %d", w.Code, w.Header().Get("Retry-After"), wasted, mayWaste)
			}
			back := at.Add(time.Duration(seconds) * time.Second)
			waiting[back] = append(waiting[back], wasted+1)
		}
		delete(waiting, at)
	}
	return admitted
}

// since counts the times, which are in order, from start on.
func since(times []int64, start int64) (n int64) {
	for i := len(times) - 1; i >= 0 && times[i] >= start; i-- {
		n++
	}
	return n
}
