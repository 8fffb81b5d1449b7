package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// plenty are limits that nobody uses up.
var plenty = map[string]*limiter.Limit{
	"fixed window": storetest.Must(limiter.Spec{RequestsPerUnit: 1 << 31, Unit: limiter.Month}),
	"token bucket": storetest.Must(limiter.Spec{RequestsPerUnit: 10_000, Unit: limiter.Day, Algorithm: limiter.TokenBucket, Burst: 1 << 27}),
}

// keyOf appends the key of a counter, of 31 bytes.
func keyOf(dst []byte, n uint64) []byte { return fmt.Appendf(dst, "w1|api|user=%07x|path=/in|1m", n) }

// BenchmarkDecide decides requests on counters that there are.
func BenchmarkDecide(b *testing.B) {
	for _, name := range []string{"fixed window", "token bucket"} {
		for _, hits := range []int{1, 10} {
			b.Run(fmt.Sprintf("%s/hits=%d/counters=%d", name, hits, hits), func(b *testing.B) {
				benchmarkDecide(b, plenty[name], hits, hits)
			})
		}
		b.Run(name+"/hits=1/counters=1000000", func(b *testing.B) {
			benchmarkDecide(b, plenty[name], 1, 1_000_000)
		})
	}
}

// benchmarkDecide decides requests of so many hits on counters drawn from all
// that each goroutine has.
func benchmarkDecide(b *testing.B, limit *limiter.Limit, hits, counters int) {
	s := memory.New(memory.Options{MaxCounters: 4_000_000})
	var goroutines atomic.Uint64
	var ready, used atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(1)
	b.RunParallel(func(pb *testing.PB) {
		g := goroutines.Add(1)
		keys := make([][]byte, counters)
		for i := range keys {
			keys[i] = keyOf(nil, g<<24+uint64(i))
			decideOn(b, s, limit, keys[i])
		}
		request, out := make([]limiter.Hit, hits), make([]limiter.Decision, hits)
		for i := range request {
			request[i] = limiter.Hit{Limit: limit, Key: keys[i], Cost: 1}
		}
		for ready.Add(1); ready.Load() < int64(runtime.GOMAXPROCS(0)); {
			runtime.Gosched()
		}
		b.ResetTimer()
		used.CompareAndSwap(0, int64(testenv.ProcessorTime(b)))
		for pb.Next() {
			if counters > hits {
				request[0].Key = keys[rand.IntN(counters)]
			}
			if _, err := s.Decide(context.Background(), request, out); err != nil {
				b.Fatal(err)
			}
		}
	})
	reportProcessorTime(b, time.Duration(used.Load()))
}

func decideOn(b *testing.B, s *memory.Store, limit *limiter.Limit, key []byte) {
	hits, out := [...]limiter.Hit{{Limit: limit, Key: key, Cost: 1}}, [1]limiter.Decision{}
	if _, err := s.Decide(context.Background(), hits[:], out[:]); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkGrowth makes b.N counters, for ten million of them run it with
// -benchtime=10000000x. It reports the longest decision meanwhile, what a counter
// takes, and what a collection of garbage then takes.
func BenchmarkGrowth(b *testing.B) {
	s := memory.New(memory.Options{MaxCounters: 2 * b.N})
	limit := storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Month})
	var key []byte
	heap := heapBytes()
	var longest time.Duration
	b.ResetTimer()
	for i := range b.N {
		key = keyOf(key[:0], uint64(i))
		start := time.Now()
		decideOn(b, s, limit, key)
		longest = max(longest, time.Since(start))
	}
	b.StopTimer()
	b.ReportMetric(longest.Seconds()*1000, "ms-longest")
	used := testenv.ProcessorTime(b)
	runtime.GC()
	b.ReportMetric((testenv.ProcessorTime(b)-used).Seconds()*1000, "cpu-ms/collection")
	b.ReportMetric(float64(heapBytes()-heap)/float64(b.N), "live-B/counter")
	runtime.KeepAlive(s)
}

func reportProcessorTime(b *testing.B, since time.Duration) {
	b.ReportMetric(float64((testenv.ProcessorTime(b)-since).Nanoseconds())/float64(b.N), "cpu-ns/op")
}
