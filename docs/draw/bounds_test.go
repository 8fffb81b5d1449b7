package main

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// TestBounds checks that no algorithm admits more than docs/algorithms.md says, under
// random bursts of load. docs/algorithms/rules_test.yaml shows that the bounds can be
// reached.
func TestBounds(t *testing.T) {
	const period = time.Minute
	share := func(amount int64, span time.Duration) int64 { return amount * int64(span) / int64(period) }
	bounds := []struct {
		name    string
		words   string        // text in the document
		longest time.Duration // longest span to which the bound applies
		spec    limiter.Spec
		most    func(amount, burst int64, span time.Duration) int64
	}{
		{"fixed_window", "2L in less than a period, across the end of a window", period - 1, limiter.Spec{}, func(amount, _ int64, _ time.Duration) int64 { return 2 * amount }},
		{"first_hit", "2L - 1 in less than a period", period - 1, limiter.Spec{Algorithm: limiter.FirstHit}, func(amount, _ int64, _ time.Duration) int64 { return 2*amount - 1 }},
		{"sliding_window", "L in a window; L + L · t / W in any time t up to a period", period, limiter.Spec{Algorithm: limiter.SlidingWindow}, func(amount, _ int64, span time.Duration) int64 { return amount + share(amount, span) }},
		{"token_bucket", "B + L · t / W in any time t", time.Hour, limiter.Spec{Algorithm: limiter.TokenBucket}, func(amount, burst int64, span time.Duration) int64 { return burst + share(amount, span) }},
	}
	document := testenv.Must(os.ReadFile("../algorithms.md"))(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, b := range bounds {
		t.Run(b.name, func(t *testing.T) {
			if row := regexp.MustCompile(`(?m)^\|\[.*` + b.name + `.*\|` + regexp.QuoteMeta(b.words) + `\|$`); !row.Match(document) {
				t.Errorf("docs/algorithms.md has no row with: %s", b.words)
			}
			for range 300 {
				amount, burst := 1+random.Uint64N(20), 1+random.Uint64N(20)
				b.spec.Unit, b.spec.RequestsPerUnit = limiter.Minute, amount
				if b.spec.Algorithm == limiter.TokenBucket {
					b.spec.Burst = burst
				}
				limit := testenv.Must(limiter.NewLimit(b.spec))(t)
				admitted := run(limit, bursts(random))
				for i, from := range admitted {
					for j, to := range admitted[i:] {
						span := to - from
						if most := b.most(int64(amount), int64(burst), span); span <= b.longest && int64(j+1) > most {
							t.Fatalf("%d of %d per minute, burst %d, were admitted from %v to %v, want at most %d", j+1, amount, burst, from, to, most)
						}
					}
				}
			}
		})
	}
}

// bursts returns the times of ten minutes of load, with more requests around full minutes.
func bursts(random *rand.Rand) []time.Duration {
	var times []time.Duration
	for range 1 + random.IntN(15) {
		from := time.Duration(random.IntN(10)) * time.Minute
		if random.IntN(2) == 0 {
			from += time.Duration(random.IntN(60_000)) * time.Millisecond
		} else {
			from += time.Minute - time.Duration(1+random.IntN(1000))*time.Millisecond
		}
		gap := time.Duration(1+random.IntN(2000)) * time.Millisecond
		for i := range 1 + random.IntN(60) {
			times = append(times, from+time.Duration(i)*gap)
		}
	}
	slices.Sort(times)
	return times
}
