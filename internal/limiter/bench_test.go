package limiter

import (
	"strings"
	"testing"
)

// BenchmarkKey spells the key of a usual counter, and of one with a long value.
func BenchmarkKey(b *testing.B) {
	limit, err := NewLimit(Spec{RequestsPerUnit: 100, Unit: Minute})
	if err != nil {
		b.Fatal(err)
	}
	for name, value := range map[string]string{"short": "alice", "long": strings.Repeat("a", 200)} {
		b.Run(name, func(b *testing.B) {
			var keys Keys
			entries := []Entry{{"user", value}, {"path", "/login"}}
			dst := make([]byte, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				dst = keys.Append(dst[:0], "api", entries, nil, limit)
			}
		})
	}
}

// BenchmarkDecide decides a request of one hit, by each algorithm.
func BenchmarkDecide(b *testing.B) {
	for name, spec := range map[string]Spec{
		"fixed_window":   {},
		"sliding_window": {Algorithm: SlidingWindow},
		"token_bucket":   {Algorithm: TokenBucket},
	} {
		b.Run(name, func(b *testing.B) {
			spec.RequestsPerUnit, spec.Unit = 1_000_000, Minute
			limit, err := NewLimit(spec)
			if err != nil {
				b.Fatal(err)
			}
			hits := []Hit{{Limit: limit, Key: []byte("k"), Cost: 1}}
			var state State
			states, out := []*State{&state}, make([]Decision, 1)
			now := int64(1_800_000_000_000_000)
			b.ReportAllocs()
			for b.Loop() {
				now += 100
				Decide(hits, states, nil, now, out)
			}
		})
	}
}
