package telemetry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/limiter"
)

// BenchmarkHit counts hits of one limit, and of many in random order.
func BenchmarkHit(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprint("limits=", n), func(b *testing.B) {
			l, _ := newUsage()
			limits := make([]*limiter.Limit, n)
			for i := range limits {
				limits[i] = perMinute(10, limiter.LabelSet{
					Domain: "api", Key1: fmt.Sprint("user_", i), Rule: fmt.Sprint("user=", i), Limit: "minute",
				})
			}
			l.Keep(slices.Values(limits))
			shuffle := func() { rand.Shuffle(n, func(i, j int) { limits[i], limits[j] = limits[j], limits[i] }) }
			shuffle()
			d := limiter.Decision{Charged: true, Used: 1}
			count := func(i int) {
				hit := limiter.Hit{Limit: limits[i], Cost: 1}
				l.count(&hit, &d)
			}
			for i := range limits {
				count(i)
			}
			shuffle()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i == n {
					i = 0
				}
				count(i)
			}
		})
	}
}
