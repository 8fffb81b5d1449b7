package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"weir/internal/testenv"
)

// figuresLast returns how long each measurement lasts, for WEIR_QUOTA_FIGURES such as 10s. By default
// the tests only show that measurements run.
func figuresLast(t *testing.T) time.Duration {
	return testenv.Must(time.ParseDuration(cmp.Or(os.Getenv("WEIR_QUOTA_FIGURES"), "300ms")))(t)
}

// cpu returns the CPU time of a process and its children, because Envoy's is started by a script.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	sum := time.Duration(0)
	for _, p := range testenv.Must(procfs.AllProcs())(t) {
		if s, err := p.Stat(); err == nil && (s.PID == pid || s.PPID == pid) {
			sum += time.Duration(s.CPUTime() * float64(time.Second))
		}
	}
	return sum
}

func redisCPU(t *testing.T, r *testenv.Redis) (sum time.Duration) {
	t.Helper()
	for line := range strings.Lines(r.Command("INFO", "cpu")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && (name == "used_cpu_sys" || name == "used_cpu_user") {
			sum += testenv.Must(time.ParseDuration(value + "s"))(t)
		}
	}
	return sum
}

// TestQuotaCost compares an Envoy without a filter, one that asks Weir about each request, and one
// with a share of the limit, in turns, with 32 connections each.
func TestQuotaCost(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	lasts, upstream := figuresLast(t), serve(t, echo)
	server := startWeir(t, writeRules(t, `{domain: api, descriptors: [
		{key: tenant, quota_service: true, rate_limit: {unit: second, requests_per_unit: 1000000}},
		{key: user, rate_limit: {unit: second, requests_per_unit: 1000000}}]}`), "QUOTA_SHARE_LIFE=6s")
	names := []string{"no filter", "asking", "quota_service"}
	var envoys []*envoy
	for i, name := range names {
		g := gateway{example: "examples/rlqs/envoy.yaml", upstream: upstream}
		if name == "asking" {
			g.example = "examples/envoy/envoy.yaml"
		}
		doc := g.bootstrap(t, server.grpc)
		if manager := connectionManager(t, doc); i == 0 {
			manager["http_filters"] = manager["http_filters"].([]any)[1:]
		}
		envoys = append(envoys, runEnvoy(t, doc))
	}
	pool := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	ask := func(e *envoy) int {
		r, _ := http.NewRequest(http.MethodGet, "http://"+e.addr, nil)
		r.Header = http.Header{"X-Tenant": {"a"}, "X-User": {"a"}}
		a, err := pool.Do(r)
		testenv.OK(t, err)
		_, _ = io.Copy(io.Discard, a.Body)
		a.Body.Close()
		return a.StatusCode
	}
	testenv.Until(t, "Envoy has a share", func() bool { return ask(envoys[2]) == 200 })
	served, used, elapsed := [3]int{}, [3]time.Duration{}, [3]time.Duration{}
	for range 4 {
		for i, e := range envoys {
			began, before := time.Now(), cpu(t, e.cmd.Process.Pid)
			var counts [32]int
			var all sync.WaitGroup
			for c := range counts {
				all.Go(func() {
					for time.Since(began) < lasts {
						if ask(e) == 200 {
							counts[c]++
						}
					}
				})
			}
			all.Wait()
			for _, n := range counts {
				served[i] += n
			}
			used[i] += cpu(t, e.cmd.Process.Pid) - before
			elapsed[i] += time.Since(began)
		}
	}
	for i, name := range names {
		rate, base := float64(served[i])/elapsed[i].Seconds(), float64(served[0])/elapsed[0].Seconds()
		t.Logf("%-14s %7.0f requests/s (%.2f), %v of Envoy's CPU a request", name, rate, rate/base, used[i]/time.Duration(max(served[i], 1)))
		if served[i] == 0 {
			t.Errorf("%s served nothing", name)
		}
	}
}

// TestQuotaScale opens streams to one server on Redis, which report 100 buckets each every 5 s, and
// measures the CPU time of both. The streams share the buckets.
func TestQuotaScale(t *testing.T) {
	t.Parallel()
	lasts, streams := figuresLast(t), 20
	if lasts >= 10*time.Second {
		streams = 1000
	}
	redis := testenv.RedisServer(t)
	server := startWeir(t, "examples/rlqs/rules", "REDIS_URL="+redis.Addr(), "REDIS_TIMEOUT=1s", "GRPC_MAX_CONCURRENT_STREAMS=0")
	conn := testenv.Must(grpc.NewClient(server.grpc, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	report := &quotav3.RateLimitQuotaUsageReports{Domain: "api"}
	for i := range 100 {
		id := &quotav3.BucketId{Bucket: map[string]string{"tenant": fmt.Sprint("tenant", i)}}
		report.BucketQuotaUsages = append(report.BucketQuotaUsages, &quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{BucketId: id, NumRequestsDenied: 3})
	}
	var all sync.WaitGroup
	for i := range streams {
		stream := testenv.Must(quotav3.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx))(t)
		all.Go(func() {
			for err := error(nil); err == nil; {
				_, err = stream.Recv()
			}
		})
		all.Go(func() {
			for wait := time.Duration(i) * 5 * time.Second / time.Duration(streams); ; wait = 5 * time.Second {
				select {
				case <-time.After(wait):
					_ = stream.Send(report)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	testenv.Until(t, "all streams have reported", func() bool {
		return server.metric("weir_quota_streams", "") == float64(streams)
	})
	began, before := time.Now(), cpu(t, server.cmd.Process.Pid)
	inRedis := redisCPU(t, redis)
	<-time.NewTimer(lasts).C
	seconds := time.Since(began).Seconds()
	status := testenv.Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", server.cmd.Process.Pid)))(t)
	_, memory, _ := strings.Cut(string(status), "VmRSS:")
	memory, _, _ = strings.Cut(memory, "\n")
	t.Logf("%d streams of 100 buckets: %.2f cores of the server, %.2f of Redis, %s", streams,
		(cpu(t, server.cmd.Process.Pid)-before).Seconds()/seconds, (redisCPU(t, redis)-inRedis).Seconds()/seconds, strings.TrimSpace(memory))
	if share := server.metric("weir_quota_share", ""); share > 100*100 {
		t.Errorf("the shares of 100 buckets admit %.0f a second", share)
	}
	cancel()
	all.Wait()
}
