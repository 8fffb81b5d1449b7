package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// BenchmarkDecide decides requests of 64 callers on a real Redis. Besides the
// usual it tells Redis' CPU time per decision, all of its work included, and
// the calls per decision.
func BenchmarkDecide(b *testing.B) {
	for _, hits := range []int{1, 3, 10} {
		limits := make([]limiter.Spec, hits)
		for i := range limits {
			limits[i].UnitMultiplier = uint32(i)
		}
		b.Run(fmt.Sprintf("hits=%d", hits), func(b *testing.B) { benchmarkDecide(b, limits) })
	}
	for name, algorithm := range map[string]limiter.Algorithm{"sliding": limiter.SlidingWindow, "bucket": limiter.TokenBucket} {
		b.Run(name, func(b *testing.B) { benchmarkDecide(b, []limiter.Spec{{Algorithm: algorithm}}) })
	}
}

func benchmarkDecide(b *testing.B, specs []limiter.Spec) {
	r := testenv.RedisServer(b)
	admin := connect(b, r)
	reg := prometheus.NewRegistry()
	s := open(b, Options{URL: r.Addr(), OpTimeout: long, Registerer: reg})

	limits := make([]*limiter.Limit, len(specs))
	for i, spec := range specs {
		spec.RequestsPerUnit, spec.Unit = 1<<30, limiter.Minute
		limits[i] = storetest.Must(spec)
	}
	var caller atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(64)
	before := redisCPU(b, admin)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		user := caller.Add(1)
		request := make([]limiter.Hit, len(limits))
		for i := range request {
			request[i] = limiter.Hit{Limit: limits[i], Cost: 1, Key: fmt.Appendf(nil, "w1|api|user=user-%d|path=/login/%d|1m", user, i)}
		}
		out := make([]limiter.Decision, len(limits))
		for pb.Next() {
			if _, err := s.Decide(context.Background(), request, out); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric((redisCPU(b, admin)-before)*1e6/float64(b.N), "redis-µs/op")
	b.ReportMetric(value(b, reg, "weir_redis_calls_total", "")/float64(b.N), "calls/op")
}

// redisCPU is the CPU time that Redis has used, in seconds.
func redisCPU(b *testing.B, client *redis.Client) float64 {
	b.Helper()
	info, err := client.Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += seconds
		}
	}
	return sum
}
