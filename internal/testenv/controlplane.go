package testenv

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Node is the node for which a ControlPlane has rules.
const Node = "default"

// ControlPlane sends rules over xDS, with the server and the cache of
// go-control-plane, as Envoy Gateway does.
type ControlPlane struct {
	Addr string // host:port, the same after a restart

	t       testing.TB
	listen  func(addr string) (net.Listener, error)
	options []grpc.ServerOption
	server  *grpc.Server
	cache   cache.SnapshotCache

	mu       sync.Mutex
	requests []*discovery.DiscoveryRequest
}

// StartControlPlane starts a control plane without rules. It stops when the test ends.
func StartControlPlane(t testing.TB, options ...grpc.ServerOption) *ControlPlane {
	t.Helper()
	listen := func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	return StartControlPlaneAt(t, OwnAddr(t), listen, options...)
}

// StartControlPlaneAt is like StartControlPlane, but listens at addr with the function listen.
func StartControlPlaneAt(t testing.TB, addr string, listen func(addr string) (net.Listener, error), options ...grpc.ServerOption) *ControlPlane {
	t.Helper()
	c := &ControlPlane{t: t, listen: listen, options: options, Addr: addr}
	c.Start()
	t.Cleanup(c.Stop)
	return c
}

// Start starts a stopped control plane again, without its earlier rules.
func (c *ControlPlane) Start() {
	c.t.Helper()
	listener := Must(c.listen(c.Addr))(c.t)
	c.cache = cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	c.server = grpc.NewServer(c.options...)
	callbacks := server.CallbackFuncs{StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests = append(c.requests, proto.Clone(r).(*discovery.DiscoveryRequest))
		return nil
	}}
	discovery.RegisterAggregatedDiscoveryServiceServer(c.server, server.NewServer(context.Background(), c.cache, callbacks))
	served := c.server
	go func() { _ = served.Serve(listener) }() // until Stop
}

// Stop closes all streams and stops listening.
func (c *ControlPlane) Stop() { c.server.Stop() }

// Set makes the control plane send configs as rules, each a RateLimitConfig in JSON.
// If there are no configs, the control plane sends an empty list.
func (c *ControlPlane) Set(version string, configs ...string) {
	c.t.Helper()
	c.SetFor(Node, version, configs...)
}

// SetFor is like Set, but for the given node.
func (c *ControlPlane) SetFor(node, version string, configs ...string) {
	c.t.Helper()
	var list []types.Resource
	for _, text := range configs {
		config := new(ratelimit.RateLimitConfig)
		if err := protojson.Unmarshal([]byte(text), config); err != nil {
			c.t.Fatalf("%v in %s", err, text)
		}
		list = append(list, config)
	}
	snapshot := Must(cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: list}))(c.t)
	OK(c.t, c.cache.SetSnapshot(context.Background(), node, snapshot))
}

// Requests returns all requests so far, including those before a restart.
func (c *ControlPlane) Requests() []*discovery.DiscoveryRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// WaitFor waits for a request for which want returns true, and returns it.
func (c *ControlPlane) WaitFor(what string, want func(*discovery.DiscoveryRequest) bool) *discovery.DiscoveryRequest {
	c.t.Helper()
	var found *discovery.DiscoveryRequest
	Eventually(c.t, func() error {
		requests := c.Requests()
		i := slices.IndexFunc(requests, want)
		if i < 0 {
			return fmt.Errorf("no request %s, but %v", what, requests)
		}
		found = requests[i]
		return nil
	})
	return found
}
