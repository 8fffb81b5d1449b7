package sketch

import (
	"math/rand/v2"
	"testing"
)

const size = 128

// streams returns functions for the group and key of the nth request, from harmless to hostile.
func streams(r *rand.Rand) map[string]func(n uint64) (group, key uint64) {
	zipf := rand.NewZipf(r, 1.1, 1, 1e6)
	steep := rand.NewZipf(r, 2, 1, 1e6)
	return map[string]func(n uint64) (group, key uint64){
		"zipf":           func(uint64) (uint64, uint64) { return 0, zipf.Uint64() },
		"zipf, 5 groups": func(uint64) (uint64, uint64) { return r.Uint64N(5), steep.Uint64() },
		"one key":        func(uint64) (uint64, uint64) { return 0, 0 },
		"new keys only":  func(n uint64) (uint64, uint64) { return 0, n },
		"round robin, one more than there are counters": func(n uint64) (uint64, uint64) { return 0, n % (size + 1) },
		"heavy, then many": func(n uint64) (uint64, uint64) {
			if n < 5000 {
				return 0, n % 10
			}
			return 0, n
		},
		"many, then heavy": func(n uint64) (uint64, uint64) {
			if n < 15000 {
				return 0, n
			}
			return 0, n % 10
		},
		"a flood beside a quiet group": func(n uint64) (uint64, uint64) {
			if n%100 == 0 {
				return 1, n / 100 % 5
			}
			return 0, n
		},
		"more groups than counters": func(n uint64) (uint64, uint64) { return n % 200, 0 },
		"groups that come and go":   func(n uint64) (uint64, uint64) { return n / 500 % 7 * (n % 3), n % 97 },
		"groups in waves":           func(n uint64) (uint64, uint64) { return r.Uint64N(1 + n/1000%64), r.Uint64N(300) },
	}
}

// TestSketchIsRight compares sketches with exact counts.
func TestSketchIsRight(t *testing.T) {
	for name, next := range streams(rand.New(rand.NewPCG(1, 2))) {
		t.Run(name, func(t *testing.T) {
			s := New[[2]uint64](size)
			keys, groups := map[[2]uint64]uint64{}, map[uint64]uint64{}
			most := 0 // largest number of groups at a time
			for n := range uint64(20_000) {
				group, key := next(n)
				id := [2]uint64{group, group*1e9 + key}
				c, _ := s.Add(id[0], id[1])
				c.Value = id
				keys[id]++
				groups[group]++
				most = max(most, len(s.Groups))
			}
			if len(s.Counters) > size || len(s.index) != len(s.Counters) {
				t.Errorf("got %d counters, %d places", len(s.Counters), len(s.index))
			}
			for group, n := range groups {
				g := s.Groups[group]
				switch {
				case g == nil && n > s.Floor:
					t.Errorf("group %d has %d, and those without counters at most %d", group, n, s.Floor)
				case g != nil && (g.Count < n || g.Count-g.Error > n):
					t.Errorf("group %d has %d, got %d with an error of %d", group, n, g.Count, g.Error)
				case g != nil && s.Floor == 0 && g.Floor > n*uint64(most)/size:
					t.Errorf("group %d has %d, one of %d groups: keys without counter have %d at most", group, n, most, g.Floor)
				}
			}
			counted := map[uint64]int{}
			for id, n := range keys {
				floor := s.Floor
				if g := s.Groups[id[0]]; g != nil {
					floor = g.Floor
				}
				i, known := s.index[id[1]]
				if !known && n > floor {
					t.Errorf("%v has %d, and those without counter at most %d", id, n, floor)
				}
				if !known {
					continue
				}
				if c := s.Counters[i]; c.Value != id || c.Group != id[0] || c.Count < n || c.Count-c.Error > n {
					t.Errorf("%v has %d, got %+v", id, n, c)
				}
				counted[id[0]]++
			}
			for id, g := range s.Groups {
				if g.keys != counted[id] || g.keys == 0 {
					t.Errorf("group %d says that it has %d counters, it has %d", id, g.keys, counted[id])
				}
			}
		})
	}
}
