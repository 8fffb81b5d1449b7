package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
)

// TestUnseenCountersDoNotHideADenial has a client that is over vary another value.
func TestUnseenCountersDoNotHideADenial(t *testing.T) {
	f := newMemoryFixture(t)
	over := hit("user", yearly(1), 1)
	f.want("first", false, 1, over)
	f.want("denied", true, 1, over)
	for i := range 20 {
		out := f.want("beside a new counter", true, 0, hit(fmt.Sprint("path ", i), yearly(3), 1), over)
		if d := out[0]; d.Over || d.Remembered || d.Charged || d.Used != 0 || d.Remaining != 3 {
			t.Errorf("the new counter: got %+v, want it unused", d)
		}
		if d := out[1]; !d.Over || !d.Remembered || d.Used != 1 {
			t.Errorf("the user: got %+v", d)
		}
	}
	f.want("a charge in any case", true, 1, limiter.Hit{Limit: yearly(3), Key: []byte("usage"), Cost: 1, Always: true}, over)

	quota := func(key string, amount uint64) limiter.Hit {
		h := hit(key, yearly(amount), 1)
		h.Mode = limiter.Quota
		return h
	}
	f.want("a quota that is not over", false, 1, quota("user", 1), quota("b", 3))
	f.want("nothing that was seen is over", true, 1, quota("user", 1), quota("c", 0))
}

// TestKnownDenialTellsWhatWasSeenOfOthers denies a request for one of its counters,
// beside others of which this process has seen admitted requests only.
func TestKnownDenialTellsWhatWasSeenOfOthers(t *testing.T) {
	f := &memoryFixture{T: t, reg: prometheus.NewRegistry(), now: time.Date(2030, 1, 1, 12, 0, 9, 0, time.UTC)}
	f.store = open(t, Options{Main: at(miniredis.RunT(t).Addr()), Registerer: f.reg, DenyMemory: 1 << 20, Now: f.clock})
	limit := func(amount uint64, unit limiter.Unit) *limiter.Limit {
		return storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: unit})
	}
	a, b, c := hit("a", limit(1, limiter.Minute), 1), hit("b", limit(1, limiter.Day), 1), hit("c", limit(5, limiter.Day), 1)
	f.want("b", false, 1, b)
	f.want("c", false, 1, c)
	f.want("a", false, 1, a)
	f.want("a again", true, 1, a)
	for _, what := range []string{"all", "all again"} {
		out := f.want(what, true, 0, a, b, c)
		if d := out[0]; !d.Over || d.RetryAfter != 51*time.Second {
			t.Errorf("%s: a: got %+v, want it over for 51 s", what, d)
		}
		if d := out[1]; !d.Over || !d.Remembered || d.Charged || d.Remaining != 0 || d.RetryAfter != 12*time.Hour-9*time.Second {
			t.Errorf("%s: b: got %+v, want it over until midnight", what, d)
		}
		if d := out[2]; d.Over || d.Charged || d.Used != 1 || d.Remaining != 4 {
			t.Errorf("%s: c: got %+v, want 4 remaining", what, d)
		}
	}
	f.want("c gives back", false, 1, limiter.Hit{Limit: c.Limit, Key: c.Key, Cost: 1, Refund: true})
	if d := f.want("after that", true, 0, a, c)[1]; d.Used != 0 || d.Remaining != 5 {
		t.Errorf("c: got %+v, want 5 remaining", d)
	}
	f.want("what is told denies nobody", true, 1, b)
}
