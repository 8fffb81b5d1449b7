package redis

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/limiter"
)

// TestGivingBackIsKnownAtOnce has a charge that makes a counter full taken back
// while the denial that it led to is remembered, and a refund whose caller left.
func TestGivingBackIsKnownAtOnce(t *testing.T) {
	l := yearly(1)
	t.Run("of a request denied elsewhere", func(t *testing.T) {
		f := newMemoryFixture(t)
		part := []limiter.Hit{hit("k", l, 1)}
		b, place, err := f.store.main.only.send(t.Context(), part, true, noDeadline)
		if err != nil {
			t.Fatal(err)
		}
		<-b.done
		out := make([]limiter.Decision, 1)
		states, err := b.reply.outcomes(place, out, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.want("beside the charge", true, 1, hit("k", l, 1))
		f.want("known", true, 0, hit("k", l, 1))
		counters := limiter.CountersOf(part)
		back := f.store.main.only.sendBack(giveBacks(part, &counters, out, states))
		<-back.done
		f.want("after it was given back", false, 1, hit("k", l, 1))
	})
	t.Run("of a refund whose caller left", func(t *testing.T) {
		f := newMemoryFixture(t)
		f.want("first", false, 1, hit("k", l, 1))
		f.want("denied", true, 1, hit("k", l, 1))
		b, _, err := f.store.main.only.send(t.Context(), []limiter.Hit{{Limit: l, Key: []byte("k"), Cost: 1, Refund: true}}, false, noDeadline)
		if err != nil {
			t.Fatal(err)
		}
		<-b.done
		f.want("after the refund", false, 1, hit("k", l, 1))
	})
	t.Run("of a refund that is noted before an earlier denial", func(t *testing.T) {
		d := newDenials(1<<20, minAge, time.Now)
		denial := &batch{number: 1, asked: time.Now()}
		refund := &batch{number: 2, asked: time.Now(), credited: []credit{{[]byte("k"), 0, 0}}, err: errLate}
		d.noteCredits(refund)
		d.note(denial, 0, []limiter.Hit{hit("k", l, 1)}, []limiter.State{{Used: 1}}, true)
		if _, ok := d.lookup([]byte("k"), time.Now()); ok {
			t.Error("a denial from before the refund is remembered")
		}
	})
}

// TestWhatIsForgottenVoidsEarlierDenials has a memory with room for one counter
// forget that something was given back to a counter, before the caller of an
// earlier denial notes it.
func TestWhatIsForgottenVoidsEarlierDenials(t *testing.T) {
	l, key := yearly(1), "000000"
	for _, c := range []struct {
		name   string
		after  int64 // the call of a denial after the refund, which takes its place; 0: none
		denial int64 // the call of the one that is told when all that is forgotten
		known  bool
	}{
		{name: "a denial before the refund", denial: 1},
		{name: "one before the refund, beside one after it", after: 3, denial: 1},
		{name: "one after the refund", denial: 3, known: true},
		{name: "one between the refund and another denial", after: 4, denial: 3, known: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDenials(denialShards*(denialBytes+len(key)), minAge, time.Now)
			deny := func(call int64, key string) {
				d.note(&batch{number: call, asked: time.Now()}, 0, []limiter.Hit{hit(key, l, 1)}, []limiter.State{{Used: 1}}, true)
			}
			d.noteCredits(&batch{number: 2, asked: time.Now(), credited: []credit{{[]byte(key), 0, 0}}, err: errLate})
			if c.after > 0 {
				deny(c.after, key)
			}
			deny(9, neighbour(d, key))
			deny(c.denial, key)
			if _, known := d.lookup([]byte(key), time.Now()); known != c.known {
				t.Errorf("known to be denied: %t, want %t", known, c.known)
			}
			if n := d.used.Load(); n != 1 {
				t.Errorf("%d counters are remembered, want one", n)
			}
		})
	}
}

// neighbour is another key of six digits in the shard of key.
func neighbour(d *denials, key string) string {
	for i := 1; ; i++ {
		if other := fmt.Sprintf("%06d", i); d.shard([]byte(other)) == d.shard([]byte(key)) {
			return other
		}
	}
}
