package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"weir/internal/testenv"
)

// TestRollingRestart restarts two instances one after the other, while Envoy
// and a plain gRPC client ask both all the time, and no call may fail. Envoy
// checks their health; the client only balances between them.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	rules := writeRules(t, `
domain: api
descriptors:
  - {key: user, value: envoy, rate_limit: {unit: year, requests_per_unit: 1000000000}}
  - {key: user, value: client, rate_limit: {unit: year, requests_per_unit: 1000000000}}
`)
	// Addresses that nobody else uses, because the ports must be had again.
	hosts := []string{"127.0.0.2", "127.0.0.3"}
	start := func(host, port string) *weir {
		return startWeir(t, rules, "GRPC_HOST="+host, "GRPC_PORT="+port, "DRAIN_DELAY=5s")
	}
	var instances []*weir
	for _, host := range hosts {
		instances = append(instances, start(host, "0"))
	}
	gateway := startPatientEnvoy(t, func(cluster map[string]any) {
		setEndpoints(t, cluster, instances[0].grpc, instances[1].grpc)
		cluster["health_checks"] = documentedHealthChecks(t)
	})
	load := startLoad(t, map[string]func(context.Context) error{
		"envoy":  throughEnvoy(gateway),
		"client": balanced(t, instances[0].grpc, instances[1].grpc),
	})
	for i, host := range hosts {
		load.wantReaches(t, instances[i])
		load.wantReaches(t, instances[1-i])
		instances[i].signal(syscall.SIGTERM)
		if code := instances[i].exitCode(); code != 0 {
			t.Fatalf("exit code %d, want 0", code)
		}
		_, port, err := net.SplitHostPort(instances[i].grpc)
		if err != nil {
			t.Fatal(err)
		}
		instances[i] = start(host, port)
	}
	load.wantReaches(t, instances[1])
	t.Logf("%d calls", load.stop())
}

// documentedHealthChecks are what docs/operations.md says an Envoy needs.
func documentedHealthChecks(t *testing.T) any {
	t.Helper()
	var cluster map[string]any
	parse(t, documentedBlock(t, "docs/operations.md", "health_checks:"), &cluster)
	return cluster["health_checks"]
}

// load asks in several ways at once until it is stopped.
type load struct {
	t     *testing.T
	users []string
	calls atomic.Int64
	end   context.CancelFunc
	tasks sync.WaitGroup
}

// startLoad asks in each of the ways, named after the user they ask for, with
// four workers. A call that fails fails the test.
func startLoad(t *testing.T, ways map[string]func(context.Context) error) *load {
	t.Helper()
	l := &load{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	l.end = cancel
	for user, ask := range ways {
		l.users = append(l.users, user)
		for range 4 {
			l.tasks.Go(func() {
				every := time.NewTicker(5 * time.Millisecond)
				defer every.Stop()
				for ctx.Err() == nil {
					if err := ask(context.Background()); err != nil { // a call is never cut off
						t.Errorf("call %d, of %s: %v", l.calls.Load(), user, err)
					}
					l.calls.Add(1)
					<-every.C
				}
			})
		}
	}
	t.Cleanup(func() { l.stop() })
	return l
}

// stop ends the load and returns the number of calls.
func (l *load) stop() int64 {
	l.end()
	l.tasks.Wait()
	return l.calls.Load()
}

// wantReaches waits until an instance is asked in all ways.
func (l *load) wantReaches(t *testing.T, w *weir) {
	t.Helper()
	for _, user := range l.users {
		before := testenv.Must(w.hits(user))(t)
		testenv.Eventually(t, func() error {
			if now, err := w.hits(user); err != nil || now <= before {
				return fmt.Errorf("%d requests, %w", now, errors.Join(err, w.ended()))
			}
			return nil
		})
	}
}

// hits is how often an instance was asked for a user.
func (w *weir) hits(user string) (int, error) {
	metrics, err := fetch("http://" + w.metrics + "/metrics")
	if err != nil {
		return 0, err
	}
	series := regexp.MustCompile(`rate_limit_total_hits\{domain="api",key1="user_` + user + `",key2=""\} (\d+)`)
	found := series.FindStringSubmatch(metrics.body)
	if found == nil {
		return 0, nil
	}
	return strconv.Atoi(found[1])
}

// throughEnvoy asks for the user envoy with an HTTP request that Envoy forwards.
func throughEnvoy(e *envoy) func(context.Context) error {
	client := &http.Client{Timeout: patience}
	e.t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.addr+"/", nil)
		if err != nil {
			return err
		}
		request.Header.Set("x-user", "envoy")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		return nil
	}
}

// balanced asks for the user client with a gRPC client that knows all addresses
// and asks one after the other.
func balanced(t *testing.T, addrs ...string) func(context.Context) error {
	t.Helper()
	known := manual.NewBuilderWithScheme("known")
	var state resolver.State
	for _, addr := range addrs {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	known.InitialState(state)
	conn, err := grpc.NewClient("known:///", grpc.WithResolvers(known), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client := service.NewRateLimitServiceClient(conn)
	request := &service.RateLimitRequest{Domain: "api", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("user", "client")}}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := client.ShouldRateLimit(ctx, request)
		return err
	}
}

// setEndpoints changes the addresses of a cluster.
func setEndpoints(t *testing.T, cluster map[string]any, addrs ...string) {
	t.Helper()
	var endpoints []any
	for _, addr := range addrs {
		endpoint := map[string]any{"address": map[string]any{"socket_address": map[string]any{}}}
		setAddr(t, endpoint, addr)
		endpoints = append(endpoints, map[string]any{"endpoint": endpoint})
	}
	get(t, cluster, "load_assignment", "endpoints", 0)["lb_endpoints"] = endpoints
}
