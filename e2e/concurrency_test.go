package e2e

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/testenv"
)

func TestConcurrentRequestsAdmitExactlyTheLimit(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 100}
`
	t.Parallel()
	for name, processes := range map[string]int{"memory": 1, "one process on Redis": 1, "two processes on one Redis": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var env []string
			if name != "memory" {
				env = onRedis(testenv.RedisServer(t))
			}
			awayFromMidnight(t)
			dir := writeRules(t, rules)
			var clients []service.RateLimitServiceClient
			for range processes {
				w := startWeir(t, dir, env...)
				for range 8 / processes {
					clients = append(clients, dial(t, w.grpc))
				}
			}
			admitted, denied := askAtOnce(t, clients, 1000)
			if admitted != 100 || denied != 900 {
				t.Errorf("%d admitted and %d denied, want 100 and 900", admitted, denied)
			}
		})
	}
}

// askAtOnce sends requests of one user through the clients, all at the same
// time, and counts the answers.
func askAtOnce(t *testing.T, clients []service.RateLimitServiceClient, requests int) (admitted, denied int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request := &service.RateLimitRequest{
		Domain: "api", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("user", "alice")},
	}
	var ok, over atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range requests {
		wg.Go(func() {
			<-start
			resp, err := clients[i%len(clients)].ShouldRateLimit(ctx, request)
			switch {
			case err != nil:
				t.Errorf("request %d: %v", i, err)
			case resp.OverallCode == service.RateLimitResponse_OK:
				ok.Add(1)
			case resp.OverallCode == service.RateLimitResponse_OVER_LIMIT:
				over.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	return ok.Load(), over.Load()
}
