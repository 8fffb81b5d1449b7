package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"weir/internal/testenv"
)

// TestRollingRestart restarts two servers one after the other, while Envoy
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
	var servers []*weir
	for _, host := range hosts {
		servers = append(servers, start(host, "0"))
	}
	g := gateway{cluster: documentedBlock(t, "docs/operations.md", "health_checks:")}
	load := startLoad(t, map[string]func() error{
		"envoy":  throughEnvoy(runEnvoy(t, g.bootstrap(t, servers[0].grpc, servers[1].grpc))),
		"client": balanced(t, servers[0].grpc, servers[1].grpc),
	})
	for i, host := range hosts {
		load.wantReaches(servers[i])
		load.wantReaches(servers[1-i])
		servers[i].signal(syscall.SIGTERM)
		servers[i].wantExit(0)
		_, port, _ := net.SplitHostPort(servers[i].grpc)
		servers[i] = start(host, port)
	}
	load.wantReaches(servers[1])
	t.Logf("%d calls", load.stop())
}

// load asks in several ways at once until it is stopped.
type load struct {
	t     *testing.T
	users []string
	calls atomic.Int64
	end   chan struct{}
	stop  func() int64 // ends the load and returns the number of calls
}

// startLoad asks in each of the ways, named after the user they ask for, with
// four workers. A call that fails fails the test.
func startLoad(t *testing.T, ways map[string]func() error) *load {
	t.Helper()
	l := &load{t: t, end: make(chan struct{})}
	var tasks sync.WaitGroup
	for user, ask := range ways {
		l.users = append(l.users, user)
		for range 4 {
			tasks.Go(func() {
				every := time.NewTicker(5 * time.Millisecond)
				defer every.Stop()
				for {
					if err := ask(); err != nil { // a call is never cut off
						t.Errorf("call %d, of %s: %v", l.calls.Load(), user, err)
					}
					l.calls.Add(1)
					select {
					case <-l.end:
						return
					case <-every.C:
					}
				}
			})
		}
	}
	l.stop = sync.OnceValue(func() int64 {
		close(l.end)
		tasks.Wait()
		return l.calls.Load()
	})
	t.Cleanup(func() { l.stop() })
	return l
}

// wantReaches waits until a server is asked in all ways.
func (l *load) wantReaches(w *weir) {
	l.t.Helper()
	for _, user := range l.users {
		hits := func() float64 { return w.metric("ratelimit_service_rate_limit_total_hits", "user_"+user) }
		before := hits()
		testenv.Eventually(l.t, func() error {
			if now := hits(); now <= before {
				return errors.Join(fmt.Errorf("%v requests of %s", now, user), w.ended())
			}
			return nil
		})
	}
}

// throughEnvoy asks for the user envoy with an HTTP request that Envoy forwards.
func throughEnvoy(e *envoy) func() error {
	client := &http.Client{Timeout: patience}
	e.t.Cleanup(client.CloseIdleConnections)
	return func() error {
		a, err := fetchBy(client, "http://"+e.addr+"/", by("envoy")...)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("status %d", a.status)
		}
		return err
	}
}

// balanced asks for the user client with a gRPC client that knows all addresses
// and asks one after the other.
func balanced(t *testing.T, addrs ...string) func() error {
	t.Helper()
	known := manual.NewBuilderWithScheme("known")
	var state resolver.State
	for _, addr := range addrs {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	known.InitialState(state)
	client := service.NewRateLimitServiceClient(connection(t, "known:///", grpc.WithResolvers(known),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`)))
	return func() error {
		_, err := decide(client, request(descriptor("user", "client")))
		return err
	}
}
