package redis

import (
	"testing"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
)

// A counter takes little memory: of most windows Redis keeps an integer, which takes least. What is
// kept in either way is read as it was written.
func TestMemoryOfACounter(t *testing.T) {
	s := newFixture(t, Options{})
	year := func(l limiter.Spec) *limiter.Limit {
		l.Unit, l.RequestsPerUnit = limiter.Year, 2_000_000
		return storetest.Must(l)
	}
	for _, c := range []struct {
		name  string
		limit *limiter.Limit
		cost  uint64
		most  int64 // bytes, the expiry's excepted
	}{
		{"a window", year(limiter.Spec{}), 1, 80},
		{"a full window", year(limiter.Spec{}), 999_999, 80},
		{"a window of millions", year(limiter.Spec{}), 1_000_000, 110},
		{"a window of a calendar", year(limiter.Spec{Algorithm: limiter.ByCalendar, TimeZone: "Europe/Berlin"}), 999_999, 80},
		{"a sliding window", year(limiter.Spec{Algorithm: limiter.SlidingWindow}), 1, 80},
		{"a window of its own", year(limiter.Spec{Algorithm: limiter.FirstHit}), 1, 110},
		{"a bucket", year(limiter.Spec{Algorithm: limiter.TokenBucket}), 7, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			const key = "w1|api|user=alice|1m"
			s.do("del", key)
			for _, cost := range []uint64{c.cost, 0} {
				if out, _ := mustDecide(t, s, hit(key, c.limit, cost)); uint64(out[0].Used) != c.cost {
					t.Errorf("cost %d: %d used, want %d", cost, out[0].Used, c.cost)
				}
			}
			if got := s.do("memory", "usage", key).(int64); got > c.most {
				t.Errorf("it takes %d bytes, want at most %d", got, c.most)
			}
		})
	}
}
