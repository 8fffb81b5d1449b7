package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// keyOf appends a counter's key of 31 bytes.
func keyOf(dst []byte, n uint64) []byte { return fmt.Appendf(dst, "w1|api|user=%07x|path=/in|1m", n) }

// BenchmarkDecide decides requests of several hits. Each goroutine has its own counters.
func BenchmarkDecide(b *testing.B) {
	limit := storetest.Must(limiter.Spec{RequestsPerUnit: 1 << 31, Unit: limiter.Month})
	for _, c := range []struct{ hits, counters int }{{1, 1}, {10, 10}, {1, 1_000_000}} {
		b.Run(fmt.Sprintf("hits=%d/counters=%d", c.hits, c.counters), func(b *testing.B) {
			s := New(Options{MaxCounters: 4_000_000})
			var goroutines atomic.Uint64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				g := goroutines.Add(1)
				keys := make([][]byte, c.counters)
				request, out := make([]limiter.Hit, c.hits), make([]limiter.Decision, c.hits)
				for i := range keys {
					keys[i] = keyOf(nil, g<<24+uint64(i))
					request[i%c.hits] = limiter.Hit{Limit: limit, Key: keys[i], Cost: 1}
					testenv.Must(s.Decide(context.Background(), request[i%c.hits:][:1], out[:1]))(b)
				}
				b.ResetTimer()
				for pb.Next() {
					request[0].Key = keys[rand.IntN(c.counters)]
					if _, err := s.Decide(context.Background(), request, out); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
