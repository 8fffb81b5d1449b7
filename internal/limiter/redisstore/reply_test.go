package redisstore

import (
	"errors"
	"math"
	"testing"

	"weir/internal/limiter"
)

func TestReplies(t *testing.T) {
	counters := []int{2, 1} // of two requests
	for _, c := range []struct {
		name     string
		integers []int64
		want     error
	}{
		{"short states", []int64{9, 7_000_001, 7_000_002, 0}, nil},
		{"long states", []int64{9, -1, 7, 1, 5, -2, 8, 2_000_000, 0, 7_000_003}, nil},
		{"nothing", nil, errReply},
		{"only the time", []int64{9}, errReply},
		{"cut off between counters", []int64{9, 7_000_001}, errReply},
		{"cut off within a counter", []int64{9, 7_000_001, 7_000_002, -1, 7, 1}, errReply},
		{"another word", []int64{9, 7_000_001, 7_000_002, -7, 7, 1, 5}, errReply},
		{"a negative state", []int64{9, 7_000_001, 7_000_002, -1, 7, -1, 5}, errReply},
		{"a state beyond all", []int64{9, 7_000_001, 7_000_002, -2, 7, 1, math.MaxInt64}, errReply},
		{"a short state beyond all", []int64{9, 7_000_001, math.MaxInt64, 0}, errReply},
		{"a time beyond all", []int64{math.MinInt64, 7_000_001, 7_000_002, 0}, errReply},
		{"too many", []int64{9, 7_000_001, 7_000_002, 7_000_003, 7_000_004}, errReply},
	} {
		if _, err := newReply(c.integers, counters); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}

func TestRepliesOfRefusedWrites(t *testing.T) {
	r, err := newReply([]int64{9, wordRefused, 7_000_005, 'O', 'O', 'M', ' ', 'x'}, []int{2, 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.outcomes(0, make([]limiter.Decision, 2), nil); classify(err) != kindOOM || !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("the refused request: error %v, want that of Redis", err)
	}
	states, err := r.outcomes(1, make([]limiter.Decision, 1), nil)
	if want := (limiter.State{At: 7, Used: 5}); err != nil || states[0] != want {
		t.Errorf("the other request: state %v, error %v, want %v", states, err, want)
	}
}
