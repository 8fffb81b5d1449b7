package redis

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
// usual it reports the CPU time per decision of this process and of Redis, all of
// its work included, and the calls per decision.
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
	s := open(b, Options{Main: at(r.Addr()), Registerer: reg, DenyMemory: 4 << 20})

	limits := make([]*limiter.Limit, len(specs))
	for i, spec := range specs {
		spec.RequestsPerUnit, spec.Unit = 1<<30, limiter.Minute
		limits[i] = storetest.Must(spec)
	}
	var caller atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(64)
	before, ownBefore := redisCPU(b, admin), testenv.ProcessorTime(b)
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
	b.ReportMetric(float64((testenv.ProcessorTime(b)-ownBefore).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
	b.ReportMetric((redisCPU(b, admin)-before)*1e6/float64(b.N), "redis-µs/op")
	b.ReportMetric(value(b, reg, "weir_redis_calls_total", "")/float64(b.N), "calls/op")
}

// BenchmarkCall makes calls of so many hits, on counters that Redis has and on new
// ones, in requests of one limit and of three. It reports how long a call keeps Redis
// busy, in which it serves nobody else.
func BenchmarkCall(b *testing.B) {
	for _, counters := range []string{"known", "new"} {
		for _, limits := range []int{1, 3} {
			for _, hits := range []int{64, maxBatch, 4 * maxBatch} {
				b.Run(fmt.Sprintf("%s/limits=%d/hits=%d", counters, limits, hits), func(b *testing.B) {
					benchmarkCall(b, hits, limits, counters == "new")
				})
			}
		}
	}
}

func benchmarkCall(b *testing.B, hits, limits int, areNew bool) {
	r := testenv.RedisServer(b)
	admin := connect(b, r)
	s := open(b, Options{Main: at(r.Addr())})
	of := make([]*limiter.Limit, limits)
	for i := range of {
		of[i] = storetest.Must(limiter.Spec{RequestsPerUnit: 1 << 30, Unit: limiter.Minute, UnitMultiplier: uint32(i + 1)})
	}
	call := func(generation int) {
		batch := newBatch(room{})
		for n := range hits / limits {
			request := make([]limiter.Hit, limits)
			for i, limit := range of {
				request[i] = limiter.Hit{Limit: limit, Cost: 1, Key: fmt.Appendf(nil, "w1|api|user=user-%d-%d|%d", generation, n, i)}
			}
			batch.add(request, false)
		}
		if s.main.call(batch); batch.err != nil {
			b.Fatal(batch.err)
		}
	}
	call(0)
	if err := admin.ConfigResetStat(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		switch {
		case !areNew:
			call(0)
		case n%100 == 99: // or Redis would outgrow the machine
			b.StopTimer()
			do(b, admin, "flushall")
			b.StartTimer()
			fallthrough
		default:
			call(n + 1)
		}
	}
	stats := infoOf(b, admin, "commandstats")["cmdstat_evalsha"] // calls=1,usec=2,usec_per_call=2.00,...
	_, after, _ := strings.Cut(stats, "usec_per_call=")
	perCall, _, _ := strings.Cut(after, ",")
	micros, err := strconv.ParseFloat(perCall, 64)
	if err != nil {
		b.Fatalf("%v in %q", err, stats)
	}
	b.ReportMetric(micros, "redis-µs/call")
	b.ReportMetric(micros/float64(hits/limits*limits), "redis-µs/hit")
}

// redisCPU is the CPU time that Redis has used, in seconds.
func redisCPU(b *testing.B, client *redis.Client) float64 {
	b.Helper()
	info, sum := infoOf(b, client, "cpu"), 0.0
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info[name], 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += seconds
	}
	return sum
}

// infoOf is a section of what Redis says of itself, by name.
func infoOf(b *testing.B, client *redis.Client, section string) map[string]string {
	b.Helper()
	text, err := client.Info(b.Context(), section).Result()
	if err != nil {
		b.Fatal(err)
	}
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	return info
}
