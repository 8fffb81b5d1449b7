package telemetry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// users are limits of as many rules.
func users(n int) []*limiter.Limit {
	limits := make([]*limiter.Limit, n)
	for i := range limits {
		limits[i] = must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: 10, Series: limiter.LabelSet{
			Domain: "api", Key1: fmt.Sprint("user_", i), Rule: fmt.Sprint("user=", i), Limit: "minute",
		}.Series()})
	}
	return limits
}

// BenchmarkHit counts hits of one limit, and of many in random order.
func BenchmarkHit(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprint("limits=", n), func(b *testing.B) {
			l := newDefault(nil, prometheus.NewRegistry())
			limits := users(n)
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

// BenchmarkGather tells Prometheus of as many series as 10,000 limits make.
func BenchmarkGather(b *testing.B) {
	reg := prometheus.NewRegistry()
	l := newDefault(shared{}, reg)
	for _, limit := range users(10_000) {
		l.ask(limiter.Hit{Limit: limit, Cost: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reg.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstHit counts a hit of a limit that was never hit before.
func BenchmarkFirstHit(b *testing.B) {
	limits := users(100_000)
	var l onStore
	d := limiter.Decision{Charged: true, Used: 1}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(limits) == 0 { // all are known: begin anew
			b.StopTimer()
			l = newDefault(nil, prometheus.NewRegistry())
			l.Keep(slices.Values(limits))
			b.StartTimer()
		}
		hit := limiter.Hit{Limit: limits[i%len(limits)], Cost: 1}
		l.count(&hit, &d)
	}
}
