package memory

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

func atOnce(amount uint64) *limiter.Limit {
	return storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Hour, Algorithm: limiter.Concurrency})
}

// hold takes the hold with number n, or releases it.
func (f *fixture) hold(l *limiter.Limit, key string, n uint64, refund bool) limiter.Decision {
	name := binary.BigEndian.AppendUint64(make([]byte, limiter.HoldSize-8), n)
	return f.decide(limiter.Hit{Limit: l, Key: []byte(key), Cost: 1, Hold: name, Refund: refund})
}

// Clients can send any number of names. Names without a hold take no memory, and each hold counts
// as a counter.
func TestHoldsAreBounded(t *testing.T) {
	f := newFixture(t, 1000)
	three, many := atOnce(3), atOnce(1_000_000)
	for n := range uint64(100_000) {
		f.hold(three, "k", n, false)
		if d := f.hold(three, "other", n, true); d.Used != 0 {
			t.Fatalf("%+v, want no hold after all were released", d)
		}
	}
	if d := f.hold(three, "k", 0, false); d.Over || d.Used != 3 {
		t.Errorf("%+v, want the first three held", d)
	}
	for n := range uint64(10_000) {
		if d := f.hold(many, "many", n, false); d.Used > 1000 {
			t.Fatalf("%+v of 1,000 counters", d)
		}
	}
}

// A released hold leaves nothing behind.
func TestHoldsLeaveNothing(t *testing.T) {
	f := newFixture(t, 0)
	l, before := atOnce(10_000), testenv.LiveHeap()
	for n := range uint64(50_000) {
		f.set(time.Duration(n) * time.Microsecond)
		if f.hold(l, "k", n, false); n >= 10 {
			f.hold(l, "k", n-10, true)
		}
	}
	if used, grown := f.hold(l, "k", 0, true).Used, testenv.LiveHeap()-before; used != 10 || grown > 100_000 {
		t.Errorf("%d holds, want 10, which take %d bytes after 50,000 were released", used, grown)
	}
	runtime.KeepAlive(f)
}
