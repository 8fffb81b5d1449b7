package telemetry_test

import (
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/telemetry"
)

// Usage counts units by the labels of their limit.
func ExampleUsage() {
	usage := telemetry.New(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), 0.8)
	limit, err := limiter.NewLimit(limiter.Spec{
		RequestsPerUnit: 5, Unit: limiter.Minute, Series: limiter.LabelSet{Domain: "api", Key1: "user"}.Series(),
	})
	if err != nil {
		panic(err)
	}
	hits := []limiter.Hit{{Limit: limit, Key: []byte("alice"), Cost: 3}}
	usage.Count(hits, []limiter.Decision{{Charged: true, Used: 3, Remaining: 2}})
	usage.Count(hits, []limiter.Decision{{Over: true, Used: 3, Remaining: 2}})
	for labels, sums := range usage.Sums() {
		fmt.Printf("%s %s: %d units, %d over the limit\n", labels.Domain, labels.Key1, sums[telemetry.TotalHits], sums[telemetry.OverLimit])
	}
	// Output:
	// api user: 6 units, 3 over the limit
}
