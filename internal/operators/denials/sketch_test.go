package denials

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/operators/excerpt"
)

// newLimit returns a limit with a label.
func newLimit(t testing.TB, label string) *limiter.Limit {
	t.Helper()
	l, err := limiter.NewLimit(limiter.Spec{
		RequestsPerUnit: 5, Unit: limiter.Minute,
		Series: limiter.LabelSet{Domain: "api", Key1: label, Rule: label, Limit: "minute"}.Series(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// denialOf returns the denial of a user by a limit.
func denialOf(l *limiter.Limit, user string) *Denial {
	return &Denial{Limit: l, RetryAfter: time.Second, Source: excerpt.Source{
		Domain: "api", Entries: []limiter.Entry{{Key: "user", Value: user}},
		Key: []byte("w1|api|" + string(l.Series) + "|" + user),
	}}
}

// stream yields users of limits: which limit, and which user of it.
type stream func(n int) (limit, user int)

// streams are what clients may do, from harmless to hostile.
func streams(r *rand.Rand) map[string]stream {
	zipf := rand.NewZipf(r, 1.1, 1, 1e6)
	steep := rand.NewZipf(r, 2, 1, 1e6)
	return map[string]stream{
		"zipf":           func(int) (int, int) { return 0, int(zipf.Uint64()) },
		"zipf, 5 limits": func(int) (int, int) { return r.IntN(5), int(steep.Uint64()) },
		"one key":        func(int) (int, int) { return 0, 0 },
		"new keys only":  func(n int) (int, int) { return 0, n },
		"round robin, one more than there are counters": func(n int) (int, int) { return 0, n % (size + 1) },
		"heavy, then many": func(n int) (int, int) {
			if n < 5000 {
				return 0, n % 10
			}
			return 0, n
		},
		"many, then heavy": func(n int) (int, int) {
			if n < 15000 {
				return 0, n
			}
			return 0, n % 10
		},
		"a flood beside a quiet limit": func(n int) (int, int) {
			if n%100 == 0 {
				return 1, n / 100 % 5
			}
			return 0, n
		},
		"more limits than counters": func(n int) (int, int) { return n % 200, 0 },
		"limits that come and go":   func(n int) (int, int) { return n / 500 % 7 * (n % 3), n % 97 },
		"limits in waves":           func(n int) (int, int) { return r.IntN(1 + n/1000%64), r.IntN(300) },
	}
}

// exact is what a sketch is held to.
type exact struct {
	keys   map[[2]int]uint64
	limits map[int]uint64
}

// check compares a sketch with exact counts. names are the hashes by limit and key.
func check(t *testing.T, s *sketch, want exact, groups map[int]uint64, keys map[[2]int]uint64) {
	t.Helper()
	places := map[uint64]int{}
	for i, h := range s.hashes {
		if _, twice := places[h]; twice {
			t.Fatal("a key has two counters")
		}
		places[h] = i
	}
	for limit, n := range want.limits {
		g := s.find(groups[limit])
		if g < 0 {
			if n > s.floor {
				t.Errorf("limit %d denied %d, and others deny at most %d", limit, n, s.floor)
			}
			continue
		}
		if got := s.groups[g]; got.count < n || got.count-got.err > n {
			t.Errorf("limit %d denied %d, got %d with an error of %d", limit, n, got.count, got.err)
		}
	}
	for k, n := range want.keys {
		i, listed := places[keys[k]]
		if !listed {
			floor := s.floor
			if g := s.find(groups[k[0]]); g >= 0 {
				floor = s.groups[g].floor
			}
			if n > floor {
				t.Errorf("key %v was denied %d times, and others at most %d", k, n, floor)
			}
			continue
		}
		if c := s.counters[i]; c.count < n || c.count-c.err > n {
			t.Errorf("key %v was denied %d times, got %d with an error of %d", k, n, c.count, c.err)
		}
	}
	counted := make([]int, len(s.groups))
	for i := range s.counters {
		counted[s.counters[i].group]++
	}
	for i := range s.groups {
		if s.groups[i].keys != counted[i] {
			t.Errorf("group %d says that it has %d counters, it has %d", i, s.groups[i].keys, counted[i])
		}
	}
}

// TestSketchIsRight compares sketches, and what is merged of them, with exact counts.
func TestSketchIsRight(t *testing.T) {
	const parts, perPart = 6, 20000
	r := rand.New(rand.NewPCG(1, 2))
	limits := make([]*limiter.Limit, 200)
	for i := range limits {
		limits[i] = newLimit(t, fmt.Sprint("limit", i))
	}
	for name, next := range streams(r) {
		t.Run(name, func(t *testing.T) {
			recorder := New(time.Unix(0, 0))
			groups, keys := map[int]uint64{}, map[[2]int]uint64{}
			all := exact{map[[2]int]uint64{}, map[int]uint64{}}
			var merged, wide sketch
			for part := range parts {
				var s sketch
				want := exact{map[[2]int]uint64{}, map[int]uint64{}}
				most := 0 // limits at a time
				for n := range perPart {
					limit, user := next(part*perPart/2 + n)
					d := denialOf(limits[limit], fmt.Sprint(user))
					group, key := recorder.hash(d)
					groups[limit], keys[[2]int{limit, user}] = group, key
					s.add(group, key, d, int64(n))
					for _, e := range []exact{want, all} {
						e.keys[[2]int{limit, user}]++
						e.limits[limit]++
					}
					most = max(most, len(s.groups))
				}
				if len(s.counters) > size {
					t.Errorf("got %d counters", len(s.counters))
				}
				check(t, &s, want, groups, keys)
				for limit, n := range want.limits {
					g := s.find(groups[limit])
					if bound := n * uint64(most) / size; g >= 0 && s.floor == 0 && s.groups[g].floor > bound {
						t.Errorf("limit %d denied %d, one of %d limits: keys without counter have %d at most, promised is %d", limit, n, most, s.groups[g].floor, bound)
					}
				}
				merged.merge(&s, size)
				wide.merge(&s, math.MaxInt)
			}
			check(t, &merged, all, groups, keys)
			check(t, &wide, all, groups, keys)
		})
	}
}
