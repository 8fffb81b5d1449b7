package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/testenv"
)

// free returns how many requests of a user may begin in examples/in-flight.
func (w *weir) free(user string) (uint32, error) {
	d := descriptor("user", user)
	d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: "request_id", Value: "peek"})
	d.HitsAddend = wrapperspb.UInt64(0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := dial(w.t, w.grpc).ShouldRateLimit(ctx, &service.RateLimitRequest{
		Domain: "in-flight", Descriptors: []*ratelimit.RateLimitDescriptor{d},
	})
	if err != nil {
		return 0, err
	}
	return resp.Statuses[0].LimitRemaining, nil
}

// waitForFree waits until so many requests of a user may begin.
func (w *weir) waitForFree(user string, want uint32) {
	w.t.Helper()
	testenv.Eventually(w.t, func() error {
		got, err := w.free(user)
		if err == nil && got != want {
			err = fmt.Errorf("%d are free, want %d", got, want)
		}
		return err
	})
}

// Of the requests of a user, three are in flight, and never a fourth, however those
// before have ended. The upstream counts.
func TestInFlight(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	var now, most, begun atomic.Int32
	answer := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		begun.Add(1)
		select {
		case <-answer:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(upstream.Close)
	rules := testenv.Must(os.ReadFile(filepath.Join(testenv.Repository(t), "examples/in-flight/rules/in-flight.yaml")))(t)
	redis := testenv.RedisServer(t)
	// A lost unit would come back after a minute, so a minute is an hour here.
	w := startWeir(t, writeRules(t, strings.Replace(string(rules), "unit: minute", "unit: hour", 1)), onRedis(redis)...)
	doc := readBootstrap(t, "examples/in-flight/envoy.yaml")
	setUpstreams(t, doc, w.grpc, upstream.Listener.Addr().String())
	makePatient(t, doc)
	e := runEnvoy(t, doc)

	ask := func(n int) (statuses chan int) {
		statuses = make(chan int, n)
		for range n {
			go func() {
				a, err := fetch("http://"+e.addr+"/", "x-user: alice")
				if err != nil {
					t.Error(err)
				}
				statuses <- a.status
			}()
		}
		return statuses
	}
	begins := func(n int) {
		testenv.Eventually(t, func() error {
			if got := begun.Load(); got != int32(n) {
				return fmt.Errorf("%d requests have begun, want %d", got, n)
			}
			return nil
		})
	}
	statuses := ask(20)
	for range 17 {
		if got := <-statuses; got != 429 {
			t.Errorf("status %d while three are in flight, want 429", got)
		}
	}
	answer <- struct{}{}
	if got := <-statuses; got != 200 {
		t.Errorf("status %d, want 200", got)
	}
	w.waitForFree("alice", 1)
	fourth := ask(1)
	begins(4)
	for range 3 {
		answer <- struct{}{}
	}
	for _, from := range []chan int{statuses, statuses, fourth} {
		if got := <-from; got != 200 {
			t.Errorf("status %d, want 200", got)
		}
	}
	w.waitForFree("alice", 3)

	// Clients leave, before the upstream answers and while Weir decides.
	for i := range 4 {
		e.abandon("/", "alice", func(*bufio.Reader) { begins(5 + i) })
		w.waitForFree("alice", 3)
	}
	redisCommand(t, redis, "CLIENT PAUSE 60000 WRITE")
	calls := e.stat("cluster.weir.upstream_rq_total")
	called := func() {
		calls++
		testenv.Eventually(t, func() error {
			if got := e.stat("cluster.weir.upstream_rq_total"); got != calls {
				return fmt.Errorf("%d calls, want %d", got, calls)
			}
			return nil
		})
	}
	for range 3 {
		e.abandon("/", "alice", func(*bufio.Reader) { called() }) // to take
		called()                                                  // to give back
	}
	redisCommand(t, redis, "CLIENT UNPAUSE")
	w.waitForFree("alice", 3)
	if got := most.Load(); got != 3 {
		t.Errorf("%d requests were in flight, want 3", got)
	}
}

// stat returns a statistic of Envoy.
func (e *envoy) stat(name string) int {
	e.t.Helper()
	a := testenv.Must(fetch("http://" + e.admin + "/stats?filter=^" + name + "$"))(e.t)
	value := testenv.Must(strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(a.body, name+": "))))(e.t)
	return value
}
