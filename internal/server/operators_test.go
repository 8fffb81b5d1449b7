package server

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRates lets requests come for 20 minutes.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := newRates(func() (decided, denied uint64) {
			seconds := uint64(time.Since(began) / time.Second)
			return 100 * seconds, 10 * seconds
		})
		if got := r.latest(); got.Decisions != 0 || got.Denials != 0 || len(r.history()) != 0 {
			t.Errorf("at the start: %+v %v", got, r.history())
		}
		go r.run(t.Context())
		time.Sleep(2 * time.Second)
		if got := r.latest(); got.Decisions != 100 || got.Denials != 10 {
			t.Errorf("soon after the start: %+v", got)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		list := r.history()
		if len(list) != ratesKept {
			t.Fatalf("%d rates are kept, want %d", len(list), ratesKept)
		}
		for i, got := range list {
			at := began.Add(20*time.Minute - time.Duration(ratesKept-1-i)*ratesEvery)
			if got.Decisions != 100 || got.Denials != 10 || !got.At.Equal(at) {
				t.Errorf("%d: got %+v, want 100 and 10 at %v", i, got, at)
			}
		}
		if got := r.latest(); got.Decisions != 100 || got.Denials != 10 {
			t.Errorf("at the end: %+v", got)
		}
	})
}
