package redis

import (
	"errors"
	"math"
	"slices"
	"testing"

	"weir/internal/limiter"
)

// asked returns a batch of two requests: one of two counters, and one of the second and a third. Its
// arguments are made, as before a call.
func asked() *batch {
	b := newBatch(room{})
	b.add([]limiter.Hit{hit("a", perYear, 1), hit("b", perYear, 2)}, false)
	b.add([]limiter.Hit{hit("b", perYear, 2), hit("c", perYear, 1)}, false)
	b.arguments(nil, "")
	return b
}

// The counters of asked are in the order a, c, b: b is charged more.
func TestReplies(t *testing.T) {
	for _, c := range []struct {
		name     string
		integers []int64
		want     error
	}{
		{"short states", []int64{9, 7_000_001, 7_000_002, 7_000_004}, nil},
		{"each by itself", []int64{9, -3, 7_000_001, -1, 8, 2_000_000, 5, -2, 7, 100, 0, 7_000_001}, nil},
		{"bans", []int64{9, -3, -5, 99, 7_000_001, 7_000_002, -5, 99, -2, 7, 100, 0, 7_000_001}, nil},
		{"one is refused", []int64{9, -3, -4, -2, 7, 100, 0, 7_000_001, 'O', 'O', 'M'}, nil},
		{"none was refused a write of its own", []int64{9, -3, 7_000_001, 7_000_002, 7_000_004, 7_000_001, 'O', 'O', 'M'}, nil},
		{"a ban that is cut off", []int64{9, -3, 7_000_001, 7_000_002, 7_000_004, -5}, errReply},
		{"a ban without a state", []int64{9, -3, 7_000_001, 7_000_002, 7_000_004, -5, 99}, errReply},
		{"a ban beyond all", []int64{9, -3, 7_000_001, 7_000_002, 7_000_004, -5, math.MaxInt64, 7_000_001}, errReply},
		{"two bans of one state", []int64{9, -3, 7_000_001, 7_000_002, 7_000_004, -5, 99, -5, 99, 7_000_001}, errReply},
		{"no window, twice", []int64{9, wordNoWindow}, errNoWindow},
		{"nothing", nil, errReply},
		{"only the time", []int64{9}, errReply},
		{"cut off between counters", []int64{9, 7_000_001}, errReply},
		{"cut off within a counter", []int64{9, -3, 7_000_001, -1, 7, 1}, errReply},
		{"cut off between requests", []int64{9, -3, 7_000_001, 7_000_002}, errReply},
		{"cut off before requests", []int64{9, -3}, errReply},
		{"another word", []int64{9, 7_000_001, 7_000_002, -7}, errReply},
		{"a negative state", []int64{9, -3, -1, 7, -1, 5, 7_000_002, 7_000_004, 7_000_001}, errReply},
		{"a state beyond all", []int64{9, -3, -1, 7, 1, math.MaxInt64, 7_000_002, 7_000_004, 7_000_001}, errReply},
		{"a short state beyond all", []int64{9, 7_000_001, math.MaxInt64, 7_000_004}, errReply},
		{"a time beyond all", []int64{math.MinInt64, 7_000_001, 7_000_002, 7_000_004}, errReply},
		{"less than was charged", []int64{9, 7_000_001, 7_000_001, 7_000_003}, errReply},
		{"too many", []int64{9, 7_000_001, 7_000_002, 7_000_004, 7_000_004}, errReply},
	} {
		if _, err := newReply(c.integers, asked()); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}

func TestRepliesOfBans(t *testing.T) {
	r, err := newReply([]int64{9, wordSingle, 7_000_001, 7_000_002, wordBanned, 99, wordOver, 7, 100, 0, wordBanned, 98, 7_000_001}, asked())
	if err != nil {
		t.Fatal(err)
	}
	out := make([]limiter.Decision, 2)
	states, err := r.outcomes(1, out, nil)
	if want := []limiter.State{{At: 7, Used: 100, Until: 99}, {At: 7, Used: 1, Until: 98}}; err != nil || !slices.Equal(states, want) || !out[0].Over || out[1].Over {
		t.Errorf("states %v, error %v, decisions %+v, want %v, of which the first is over", states, err, out, want)
	}
}

// The state at the end is that of the last request; those before it saw less.
func TestRepliesOfSums(t *testing.T) {
	r, err := newReply([]int64{9, 7_000_001, 7_000_002, 7_000_014}, asked())
	if err != nil {
		t.Fatal(err)
	}
	for place, want := range [][]limiter.State{{{At: 7, Used: 1}, {At: 7, Used: 12}}, {{At: 7, Used: 14}, {At: 7, Used: 2}}} {
		if got, err := r.outcomes(place, make([]limiter.Decision, 2), nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("request %d: states %v, error %v, want %v", place, got, err, want)
		}
	}
}

func TestRepliesOfRefusedWrites(t *testing.T) {
	r, err := newReply([]int64{9, wordSingle, wordRefused, wordOver, 7, 100, 0, 7_000_005, 'O', 'O', 'M', ' ', 'x'}, asked())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.outcomes(0, make([]limiter.Decision, 2), nil); classify(err) != kindOOM || !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("the refused request: error %v, want that of Redis", err)
	}
	out := make([]limiter.Decision, 2)
	states, err := r.outcomes(1, out, nil)
	if want := []limiter.State{{At: 7, Used: 100}, {At: 7, Used: 5}}; err != nil || !slices.Equal(states, want) || !out[0].Over || out[1].Over {
		t.Errorf("the other request: states %v, error %v, decisions %+v, want %v, of which the first is over", states, err, out, want)
	}
}
