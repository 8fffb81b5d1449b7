// Package storetest is the conformance suite for every limiter.CounterStore. The tests of a
// store call Run, and cover only what is specific to the store, such as expiry, connections or
// evictions.
//
// The suite sets the store's clock. A store may also expire counters in real time, as Redis does.
// So no test relies on a counter whose window ends within a few seconds, or on a window that ended
// before the clock stepped back.
package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/limiter"
)

// Run checks that a store implements limiter.CounterStore. It calls open once per test. open
// returns a store without counters that uses now as its clock, and closes the store with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T, now func() time.Time) limiter.CounterStore) {
	t.Helper()
	run(t, open, false)
	t.Run("random histories are decided as by the model", func(t *testing.T) { testHistories(t, open) })
}

// RunApart checks a store that keeps the counters of one request in several parts. Concurrent
// requests may see partial charges of each other, but in the end denied requests leave nothing
// behind. RunApart runs no random histories: the amounts of limits change in them, and then it
// makes a difference whether a denied request rolls a bucket.
func RunApart(t *testing.T, open func(t *testing.T, now func() time.Time) limiter.CounterStore) {
	t.Helper()
	run(t, open, true)
}

func run(t *testing.T, open func(t *testing.T, now func() time.Time) limiter.CounterStore, apart bool) {
	t.Helper()
	all := readLives(t)
	t.Run("every algorithm has lives and counters", func(t *testing.T) { testRows(t, all) })
	for _, l := range all {
		t.Run(l.name, func(t *testing.T) {
			f := newFixture(t, open)
			for i, s := range l.steps {
				f.at(s.at)
				f.expect(fmt.Sprintf("step %d at %v", i, s.at), s)
			}
		})
	}
	for _, c := range []struct {
		name string
		run  func(f *fixture)
	}{
		{"keys of any bytes are distinguished", testKeys},
		{"a request of many hits is decided as a whole", testManyHits},
		{"concurrent requests admit exactly the limit", testConcurrent},
		{"concurrent requests on crossing counters stay whole", testCrossing},
		{"a caller that goes away leaves the state whole", testCancelled},
		{"a caller that has left is not charged", testLeft},
		{"a hold is not taken after it was released", testLeftHolds},
		{"hits and keys may be used again at once", testReuse},
		{"a counter is looked at", testPeek},
		{"a counter is reset", testReset},
		{"counters are reset while they are used", testResetUnderLoad},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, open)
			f.apart = apart
			c.run(f)
		})
	}
}

// start is the initial time of every test's clock, minuteLeft before the next full minute.
var start = time.Date(2026, time.January, 2, 3, 4, 5, 678_000_000, time.UTC)

const minuteLeft = 54*time.Second + 322*time.Millisecond

// clock is a clock that moves only by set.
type clock struct{ micros atomic.Int64 }

func (c *clock) now() time.Time  { return time.UnixMicro(c.micros.Load()) }
func (c *clock) set(t time.Time) { c.micros.Store(t.UnixMicro()) }

// fixture is a store under test and its clock.
type fixture struct {
	*testing.T
	store limiter.CounterStore
	clock *clock
	apart bool // the counters of one request are kept in several parts
}

func newFixture(t *testing.T, open func(t *testing.T, now func() time.Time) limiter.CounterStore) *fixture {
	t.Helper()
	c := new(clock)
	c.set(start)
	return &fixture{T: t, store: open(t, c.now), clock: c}
}

// at sets the clock to d after start.
func (f *fixture) at(d time.Duration) { f.clock.set(start.Add(d)) }

// decide makes the store decide hits. An error fails the test.
func (f *fixture) decide(hits ...limiter.Hit) (out []limiter.Decision, denied bool) {
	f.Helper()
	out = make([]limiter.Decision, len(hits))
	denied, err := f.store.Decide(f.Context(), hits, out)
	if err != nil {
		f.Fatalf("Decide: %v", err)
	}
	return out, denied
}

// expect sends the request of s to the store and compares the outcome with s.
func (f *fixture) expect(label string, s step) {
	f.Helper()
	out, denied := f.decide(s.hits...)
	if denied != s.denied {
		f.Errorf("%s: denied is %v, want %v", label, denied, s.denied)
	}
	if len(s.want) != len(s.hits) {
		f.Fatalf("%s: %d decisions wanted for %d hits", label, len(s.want), len(s.hits))
	}
	for i := range s.hits {
		if out[i] != s.want[i] {
			f.Errorf("%s: hit %d %s:\n got %+v\nwant %+v", label, i, describe(s.hits[i]), out[i], s.want[i])
		}
	}
}

// used returns the use of the counters of keys, without changing the counters.
func (f *fixture) used(l *limiter.Limit, keys ...string) []int64 {
	f.Helper()
	var hits []limiter.Hit
	for _, key := range keys {
		hits = append(hits, peek(key, l))
	}
	out, _ := f.decide(hits...)
	var used []int64
	for _, d := range out {
		used = append(used, d.Used)
	}
	return used
}

// expectUsed compares the use of the counters of keys with want.
func (f *fixture) expectUsed(l *limiter.Limit, want []int64, keys ...string) {
	f.Helper()
	if got := f.used(l, keys...); !slices.Equal(got, want) {
		f.Errorf("counters %.40q hold %v, want %v", keys, got, want)
	}
}

func describe(h limiter.Hit) string {
	return fmt.Sprintf("{%.40q %d per %v mode %d group %d, cost %d refund %v always %v reservation %q}",
		h.Key, h.Limit.RequestsPerUnit, h.Limit.Period(), h.Limit.Mode, h.Group, h.Cost, h.Refund, h.Always, h.Reservation)
}
