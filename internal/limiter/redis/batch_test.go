package redis

import (
	"testing"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
)

// BenchmarkBatch writes a call of 64 requests of three hits each.
func BenchmarkBatch(b *testing.B) {
	limit := storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Minute})
	hit := limiter.Hit{Limit: limit, Cost: 1, Key: []byte("w1|api|user=alice|path=/login|1m")}
	hits := []limiter.Hit{hit, hit, hit}
	var args []any
	var last room
	b.ReportAllocs()
	for b.Loop() {
		batch := newBatch(last)
		for range 64 {
			batch.add(hits, false)
		}
		last = batch.size()
		args = batch.arguments(args[:0], "")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/request")
}
