package limiter

import (
	"testing"
	"time"
)

// What is given back leaves the ban, of which a counter lives until the end.
func TestGiveBackLeavesTheBan(t *testing.T) {
	for a := range algorithms {
		spec := Spec{RequestsPerUnit: 10, Unit: Minute, Algorithm: Algorithm(a), DenyFor: time.Hour}
		if !spec.Algorithm.Takes(DenyForOption) {
			continue
		}
		l, now := must(spec), at(0)
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
