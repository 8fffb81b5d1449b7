package e2e

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"weir/internal/testenv"
)

const thousandADay = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000}}]\n"

// A process that does not run for longer than REDIS_OP_TIMEOUT, as one whose container
// has used up its share of the processors, says nothing about Redis: what Redis answered
// meanwhile is an answer. The requests are more than two calls take, so some wait for
// the next one, and others behind them.
func TestProcessThatDidNotRunStillAnswers(t *testing.T) {
	t.Parallel()
	awayFromMidnight(t)
	const timeout, callers = 4 * time.Second, 700
	redis := testenv.RedisServer(t)
	w := startWeir(t, writeRules(t, thousandADay), append(onRedis(redis), "REDIS_OP_TIMEOUT="+timeout.String())...)
	client := dial(t, w.grpc)
	decide := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := client.ShouldRateLimit(ctx, &service.RateLimitRequest{
			Domain: "api", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("user", "alice")},
		})
		return err
	}
	if err := decide(); err != nil {
		t.Fatal(err)
	}

	redisCommand(t, redis, "CLIENT PAUSE 60000 WRITE")
	began := time.Now()
	var requests sync.WaitGroup
	for range callers {
		requests.Go(func() {
			if err := decide(); err != nil {
				t.Error(err)
			}
		})
	}
	waitForHeldScript(t, redis)
	w.signal(syscall.SIGSTOP)
	redisCommand(t, redis, "CLIENT UNPAUSE")
	testenv.Pass(time.Until(began.Add(timeout * 3 / 2)))
	w.signal(syscall.SIGCONT)
	requests.Wait()
	if got := w.remaining("user", "alice"); got != 1000-1-callers {
		t.Errorf("%d requests left, want %d", got, 1000-1-callers)
	}
	w.wantMetric(`weir_redis_errors_total{kind="timeout"} 0`)

	// A Redis that does not run is another matter.
	redis.Pause()
	began = time.Now()
	if code := grpcstatus.Code(decide()); code != codes.Unavailable {
		t.Errorf("while Redis does not run: %v, want %v", code, codes.Unavailable)
	}
	if took := time.Since(began); took < timeout || took > 2*timeout {
		t.Errorf("while Redis does not run: an answer after %v, want %v", took, timeout)
	}
	redis.Resume()
}
