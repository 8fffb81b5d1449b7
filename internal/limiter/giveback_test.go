package limiter

import (
	"testing"
	"time"

	"weir/internal/testenv"
)

// TestGiveBack reverses a charge of 4 that was made at second 30 of a minute.
func TestGiveBack(t *testing.T) {
	const charged = 4
	at := func(seconds float64) int64 { return int64(seconds * 1e6) }
	for _, c := range []struct {
		name   string
		how    Algorithm
		before int64   // units used when the charge is made
		other  int64   // units that others charge in between
		when   float64 // second of the others' charge
		back   float64 // second at which the charge is reversed
		want   int64   // units used then, rounded up
	}{
		{"window, at once", FixedWindow, 3, 0, 30, 30, 3},
		{"window, after others", FixedWindow, 3, 2, 40, 59, 5},
		{"window, in the next", FixedWindow, 3, 0, 30, 60, 0},
		{"window, in the next after others", FixedWindow, 3, 5, 61, 62, 5},
		{"first hit, after others", FirstHit, 3, 2, 40, 80, 5},
		{"first hit, in the next after others", FirstHit, 3, 5, 91, 92, 5},
		{"sliding, after others", SlidingWindow, 3, 2, 40, 59, 5},
		{"sliding, from the previous window", SlidingWindow, 3, 0, 30, 90, 2}, // half of 3
		{"sliding, from the previous window beside others", SlidingWindow, 3, 2, 70, 90, 4},
		{"sliding, two windows later", SlidingWindow, 3, 5, 125, 130, 5},
		{"bucket, at once", TokenBucket, 3, 0, 30, 30, 3},
		{"bucket, while it drains", TokenBucket, 3, 0, 30, 36, 2},
		{"bucket, which would be empty", TokenBucket, 3, 0, 30, 60, 0},
		{"bucket, after others", TokenBucket, 6, 2, 36, 42, 6},
		{"bucket, long after it was empty", TokenBucket, 3, 5, 80, 80, 5},
		{"bucket, partly drained", TokenBucket, 0, 0, 30, 42, 0},
		{"bucket, partly drained beside others", TokenBucket, 0, 5, 42, 42, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := MustLimit(Spec{RequestsPerUnit: 10, Unit: Minute, Algorithm: c.how})
			take := func(s State, now, units int64) State {
				if units == 0 {
					return s
				}
				return l.counting.add(l.roll(s, now), units)
			}
			after := take(take(State{}, at(30), c.before), at(30), charged)
			left := l.GiveBack(take(after, at(c.when), c.other), after, charged, at(c.back))
			testenv.Equal(t, l.Counter(left, at(c.back)).Used, c.want, "used units")
		})
	}
}

// The charge or the stored state is later than now, because the clock stepped back.
func TestGiveBackAfterAStepBack(t *testing.T) {
	const minute = 60_000_000
	for _, spec := range []Spec{{}, {Algorithm: FirstHit}, {Algorithm: ByCalendar, UnitMultiplier: 2}, {Algorithm: SlidingWindow}, {Algorithm: TokenBucket}} {
		spec.RequestsPerUnit, spec.Unit = 10, Minute
		l := MustLimit(spec)
		take := func(s State, now int64) State { return l.counting.add(l.roll(s, now), 4) }
		charged := take(State{}, 30*minute)
		for name, s := range map[string]State{
			"the charge":               charged,
			"and it was brought back":  take(charged, 10*minute),
			"and others came later on": take(take(charged, 10*minute), 11*minute),
		} {
			testenv.Equal(t, l.GiveBack(s, charged, 4, 12*minute), s, "%+v, %s: state", spec, name)
		}
		old := take(State{}, 12*minute)
		others := take(old, 30*minute)
		testenv.Equal(t, l.GiveBack(others, old, 4, 12*minute), others, "%+v, others charged later: state", spec)
	}
}

// A window that was fully refunded and started again keeps its new use.
func TestGiveBackToAWindowThatStartedAgain(t *testing.T) {
	l := MustLimit(Spec{RequestsPerUnit: 10, Unit: Minute, Algorithm: FirstHit})
	second := time.Second.Microseconds()
	charged := l.counting.add(l.roll(State{}, 10*second), 4)
	again := l.counting.add(l.roll(l.counting.add(charged, -10), 20*second), 3)
	testenv.Equal(t, l.GiveBack(again, charged, 4, 30*second), again, "state")
}

// GiveBack leaves a ban in place, and the counter is kept until the ban ends.
func TestGiveBackLeavesTheBan(t *testing.T) {
	for a := range algorithms {
		spec := Spec{RequestsPerUnit: 10, Unit: Minute, Algorithm: Algorithm(a), DenyFor: time.Hour}
		if !spec.Algorithm.Takes(DenyForOption) {
			continue
		}
		l, now := MustLimit(spec), at(0)
		var s State
		charge := func(cost uint64) {
			Decide([]Hit{{Limit: l, Cost: cost}}, []*State{&s}, nil, now, make([]Decision, 1))
		}
		charge(4)
		charged := s
		charge(7)
		until := now + time.Hour.Microseconds()
		if s.Until != until || l.Expiry(s) != until {
			t.Errorf("%s: %+v, which expires at %d, want that it is banned until %d", spec.Algorithm, s, l.Expiry(s), until)
		}
		if s = l.GiveBack(s, charged, 4, now+second); s.Used != 0 || s.Until != until || l.Expiry(s) != until {
			t.Errorf("%s: %+v is left, want nothing but the ban until %d", spec.Algorithm, s, until)
		}
	}
}
