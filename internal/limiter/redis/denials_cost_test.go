package redis

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// A request of very many hits that are all known is denied in time in proportion
// to them.
func TestManyKnownDenialsInTime(t *testing.T) {
	for _, counters := range []int{1, 10_000} {
		d := newDenials(1<<24, minAge, time.Now)
		l := yearly(1)
		hits, states := make([]limiter.Hit, 10_000), make([]limiter.State, 10_000)
		for i := range hits {
			hits[i] = hit(fmt.Sprintf("w1|api|user=%07d|60", i%counters), l, 1)
			states[i] = limiter.State{At: time.Now().UnixMicro() / l.Period().Microseconds(), Used: 1}
		}
		out := make([]limiter.Decision, len(hits))
		testenv.InProcessorTime(t, 150*time.Millisecond, func() {
			d.note(&batch{asked: time.Now(), reply: reply{now: time.Now().UnixMicro()}}, 0, hits, states, true)
			if !d.deny(hits, out) {
				t.Error("not known to be denied")
			}
		})
	}
}

// TestNothingIsLookedUpWhenAllDenialsRanOut asks for another counter when the
// last denial ran out: that ends the search for all that follow.
func TestNothingIsLookedUpWhenAllDenialsRanOut(t *testing.T) {
	l := yearly(2)
	for name, remember := range map[string]func(f *memoryFixture){
		"a denial": func(f *memoryFixture) {
			f.want("first", false, 1, hit("k", l, 2))
			f.want("denied", true, 1, hit("k", l, 1))
		},
		"a refund": func(f *memoryFixture) {
			f.want("refund", false, 1, limiter.Hit{Limit: l, Key: []byte("k"), Cost: 1, Refund: true})
		},
		"many denials, one after the other": func(f *memoryFixture) {
			for i := range 50 {
				f.pass(30 * time.Millisecond)
				f.want("denied", true, 1, hit(fmt.Sprint("k", i), l, 3))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newMemoryFixture(t)
			remember(f)
			d := f.store.denials
			f.pass(minAge)
			f.want("another, while the last is remembered", false, 1, hit("other", l, 1))
			if d.used.Load() == 0 {
				t.Error("nothing is remembered too early")
			}
			f.pass(time.Microsecond)
			f.want("another, when all ran out", false, 1, hit("other", l, 1))
			if n := d.used.Load(); n != 0 {
				t.Errorf("%d counters are remembered", n)
			}
			f.want("too much, which Redis denies", true, 1, hit("k", l, 3))
			f.want("known", true, 0, hit("k", l, 3))
		})
	}
}

// rememberOne returns a memory in which the counter "over" is denied.
func rememberOne(l *limiter.Limit) *denials {
	now := time.Now()
	d := newDenials(1<<20, minAge, func() time.Time { return now })
	state := limiter.State{At: now.UnixMicro() / l.Period().Microseconds(), Used: 1}
	d.note(&batch{asked: now, reply: reply{now: now.UnixMicro()}}, 0, []limiter.Hit{hit("over", l, 1)}, []limiter.State{state}, true)
	return d
}

// lookUps are requests met by a memory of one counter, "over".
func lookUps(l *limiter.Limit) map[string][]limiter.Hit {
	return map[string][]limiter.Hit{
		"known":   {hit("over", l, 1), hit("over", l, 1)},
		"unknown": {hit("other", l, 1), hit("another", l, 1)},
	}
}

func TestLookingUpTakesNoMemory(t *testing.T) {
	l := yearly(1)
	for name, hits := range lookUps(l) {
		t.Run(name, func(t *testing.T) {
			d, out := rememberOne(l), make([]limiter.Decision, len(hits))
			if denied := d.deny(hits, out); denied != (name == "known") {
				t.Fatalf("denied: %t", denied)
			}
			if n := testing.AllocsPerRun(100, func() { d.deny(hits, out) }); n != 0 {
				t.Errorf("%v allocations, want none", n)
			}
		})
	}
}

func BenchmarkDenials(b *testing.B) {
	l := yearly(1)
	for name, hits := range lookUps(l) {
		b.Run(name, func(b *testing.B) {
			d, out := rememberOne(l), make([]limiter.Decision, len(hits))
			b.ReportAllocs()
			for b.Loop() {
				d.deny(hits, out)
			}
		})
	}
}
