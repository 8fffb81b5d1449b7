package memory_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/storetest"
)

func atOnce(amount uint64) *limiter.Limit {
	return storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Hour, Algorithm: limiter.Concurrency})
}

// holder takes and gives back the holds of one store.
type holder struct {
	testing.TB
	store *memory.Store
	hits  [1]limiter.Hit
	out   [1]limiter.Decision
	name  [limiter.HoldSize]byte
}

func (h *holder) decide(l *limiter.Limit, key []byte, n uint64, refund bool) (denied bool) {
	h.Helper()
	binary.BigEndian.PutUint64(h.name[:], n)
	h.hits[0] = limiter.Hit{Limit: l, Key: key, Cost: 1, Hold: h.name[:], Refund: refund}
	denied, err := h.store.Decide(context.Background(), h.hits[:], h.out[:])
	if err != nil {
		h.Fatal(err)
	}
	return denied
}

// Names of holds are as many as somebody likes to send: those that are not held take no
// memory, and those that are count as counters do.
func TestHoldsAreBounded(t *testing.T) {
	now := time.Now()
	h := &holder{TB: t, store: memory.New(memory.Options{MaxCounters: 1000, Now: func() time.Time { return now }})}
	three, many := atOnce(3), atOnce(1_000_000)
	for n := range uint64(100_000) {
		h.decide(three, []byte("k"), n, false)
		h.decide(three, []byte("other"), n, true)
	}
	if got := h.out[0].Used; got != 0 {
		t.Errorf("%d held where all was given back", got)
	}
	if h.decide(three, []byte("k"), 0, false) || h.out[0].Used != 3 {
		t.Errorf("%+v, want the first three held", h.out[0])
	}
	for n := range uint64(10_000) {
		if h.decide(many, []byte("many"), n, false); h.out[0].Used > 1000 {
			t.Fatalf("%d held, of 1,000 counters", h.out[0].Used)
		}
	}
}

// What was taken and given back leaves nothing, at any time.
func TestHoldsLeaveNothing(t *testing.T) {
	now := time.Now()
	h := &holder{TB: t, store: memory.New(memory.Options{Now: func() time.Time { return now }})}
	l, before := atOnce(10_000), heapBytes()
	for n := range uint64(50_000) {
		now = now.Add(time.Microsecond)
		h.decide(l, []byte("k"), n, false)
		if n >= 10 {
			h.decide(l, []byte("k"), n-10, true)
		}
	}
	if used, grown := h.out[0].Used, heapBytes()-before; used != 10 || grown > 100_000 {
		t.Errorf("%d held, want 10, which take %d bytes after 50,000 were given back", used, grown)
	}
	runtime.KeepAlive(h)
}
