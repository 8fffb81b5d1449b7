package limiter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
				Decide(hits, states, now, out)
			}
		})
	}
}

// BenchmarkGather tells Prometheus of as many series as 10,000 limits make.
func BenchmarkGather(b *testing.B) {
	reg := prometheus.NewRegistry()
	l := New(shared{}, reg)
	for i := range 10_000 {
		limit := must(Spec{Unit: Minute, RequestsPerUnit: 10, Series: Series{Domain: "api", Key1: fmt.Sprint("user_", i)}.Name()})
		if _, err := l.Decide(b.Context(), []Hit{{Limit: limit, Cost: 1}}, make([]Decision, 1)); err != nil {
			b.Fatal(err)
		}
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
	m := newMetrics(Options{Registerer: prometheus.NewRegistry(), NearLimitRatio: 0.8})
	limits := make([]*Limit, 100_000)
	for i := range limits {
		limits[i] = must(Spec{Unit: Minute, RequestsPerUnit: 10, Series: Series{Domain: "api", Key1: fmt.Sprint("user_", i)}.Name()})
	}
	d := Decision{Charged: true, Used: 1}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(limits) == 0 { // all are known: begin anew
			b.StopTimer()
			m = newMetrics(Options{Registerer: prometheus.NewRegistry(), NearLimitRatio: 0.8})
			b.StartTimer()
		}
		hit := Hit{Limit: limits[i%len(limits)], Cost: 1}
		m.observe(&hit, &d)
	}
}
