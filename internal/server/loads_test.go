package server

import (
	"testing"

	"weir/internal/operators/console"
)

// TestLoadsAreRemembered loads well, badly again and again, and well.
func TestLoadsAreRemembered(t *testing.T) {
	r := new(rules)
	r.remember(console.Load{Rules: 3})
	for range 5 {
		r.remember(console.Load{Problems: "a.yaml:1:1: bad"})
	}
	r.remember(console.Load{Problems: "a.yaml:2:1: bad"})
	if got := r.lastLoads(); len(got) != 3 || got[0].Times != 1 || got[1].Times != 5 || got[2].Rules != 3 {
		t.Errorf("got %+v", got)
	}
	for range 30 {
		r.remember(console.Load{Rules: 4})
	}
	if got := r.lastLoads(); len(got) != mostLoads || got[0].Rules != 4 {
		t.Errorf("got %+v", got)
	}
}
