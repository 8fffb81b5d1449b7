package xds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Options configure a Client. All fields except NodeID, NodeMetadata, Headers, MaxMessageSize
// and Silent are required.
type Options struct {
	Server      string // host:port or another gRPC target, such as unix:/run/xds.sock
	Credentials credentials.TransportCredentials
	// NodeID and NodeMetadata identify this server to the control plane.
	NodeID       string
	NodeMetadata map[string]string
	// Headers, if not nil, returns the headers of a new stream.
	Headers        func() map[string]string
	MaxMessageSize int // largest response, in bytes; 0 means 4 MiB

	Type string // the type URL of the resources
	// Apply is called with the newest response, which replaces all earlier responses, in one
	// goroutine at a time. If it returns an error, the response is refused with that error,
	// unless the context is done. If the control plane repeats a refused response, that response
	// is refused again without a call.
	Apply func(context.Context, Update) error
	// Silent, if not nil, is called for each stream that has had no response for 15 s after its
	// start, which usually means that the control plane has no resources for this node.
	Silent func()

	// Retry is the first wait after a failed connection. It is also the minimum interval between two
	// refusals of responses, after the first few.
	Retry time.Duration
	// BackoffInitial is the first wait after a stream that soon ended without a response. After
	// a stream that worked, the next attempt comes within a second.
	BackoffInitial time.Duration
	// BackoffMax bounds both waits, which double with each failed attempt.
	BackoffMax time.Duration
	// BackoffSpread is the share, from 0 to 1, by which waits vary at random, so that many
	// clients do not reconnect at the same time.
	BackoffSpread float64

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// refusalsAtOnce is the number of refusals without delay: two for a response that comes twice, and
// two for the next response. The same number of responses is accepted without delay.
const refusalsAtOnce = 4

// loadInterval is the minimum interval between two accepted responses, after the first few.
const loadInterval = 300 * time.Millisecond

// Update is a response of the control plane, with all resources.
type Update struct {
	Type      string // type URL in the response
	Version   string // may be empty
	Resources []*anypb.Any
}

// Status is the state of the connection to the control plane.
type Status struct {
	Connected bool
	Since     time.Time // time of the last change of Connected
	Err       error     // why the last attempt or stream ended, kept after reconnecting; nil if none has ended
}

// Client subscribes to the resources of a control plane.
type Client struct {
	opts Options
	node *core.Node
	dial []grpc.DialOption

	refusals *rate.Limiter // limits refusals of all streams together
	loads    *rate.Limiter // limits accepted responses of all streams together
	applied  bool          // Apply accepted a response

	patience time.Duration
	names    resolver.Builder     // resolves the control plane's name
	silent   map[string]time.Time // addresses that did not respond in their last stream, with the time when it ended

	unreachable, ended *backoff.ExponentialBackOff

	status    atomic.Pointer[Status]
	connected prometheus.Gauge
}

// New returns a client that does not connect until Run. It returns an error if the server address
// is invalid.
func New(opts Options) (*Client, error) {
	metadata := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(opts.NodeMetadata))}
	for name, value := range opts.NodeMetadata {
		metadata.Fields[name] = structpb.NewStringValue(value)
	}
	opts.MaxMessageSize = cmp.Or(opts.MaxMessageSize, 4<<20)
	c := &Client{
		opts: opts,
		node: &core.Node{Id: opts.NodeID, Metadata: metadata},
		dial: []grpc.DialOption{
			grpc.WithTransportCredentials(keepAlive{opts.Credentials}),
			// Servers of grpc-go close connections with more than one ping in 5 minutes.
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 20 * time.Second}),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: grpcbackoff.DefaultConfig, MinConnectTimeout: 10 * time.Second}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(opts.MaxMessageSize), grpc.ForceCodecV2(newCodec(encoding.GetCodecV2(protocodec.Name), &opts))),
		},
		refusals:    rate.NewLimiter(rate.Every(opts.Retry), refusalsAtOnce),
		patience:    patience,
		names:       resolver.Get("dns"),
		silent:      map[string]time.Time{},
		loads:       rate.NewLimiter(rate.Every(loadInterval), refusalsAtOnce),
		unreachable: opts.backoff(opts.Retry),
		ended:       opts.backoff(opts.BackoffInitial),
	}
	c.status.Store(&Status{Since: time.Now()})
	conn, err := grpc.NewClient(opts.Server, c.dial...)
	if err != nil {
		return nil, fmt.Errorf("control plane %q: %w", opts.Server, err)
	}
	conn.Close()
	c.connected = promauto.With(opts.Registerer).NewGauge(prometheus.GaugeOpts{
		Name: "weir_xds_connected", Help: "1 while connected to the control plane, else 0.",
	})
	return c, nil
}

func (o *Options) backoff(initial time.Duration) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: initial, MaxInterval: max(initial, o.BackoffMax), Multiplier: 2, RandomizationFactor: o.BackoffSpread,
	}
}

// Run keeps a stream to the control plane open until ctx is done.
func (c *Client) Run(ctx context.Context) {
	c.opts.Logger.Info("connecting to the control plane", "server", c.opts.Server, "node", c.opts.NodeID)
	for soon := true; ; soon = false {
		reached, worked, err := c.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errSilent) {
			continue // it is not an outage
		}
		wait := c.wait(reached, worked || soon)
		c.setStatus(false, err)
		about := []any{"server", c.opts.Server, "err", err, "retry_in", wait.Round(time.Millisecond)}
		if c.applied {
			c.opts.Logger.Warn("the control plane is not connected; its last rules stay in use", about...)
		} else {
			c.opts.Logger.Warn("the control plane is not connected; there are no rules yet", about...)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// wait returns the wait after an attempt. reached reports whether there was a stream. After a
// stream that worked, the wait is at most a second, because most outages of control planes are
// short.
func (c *Client) wait(reached, worked bool) time.Duration {
	delays := c.unreachable
	if reached {
		delays = c.ended
	}
	if !worked {
		return delays.NextBackOff()
	}
	c.unreachable.Reset()
	c.ended.Reset()
	most := min(time.Second, delays.InitialInterval)
	return most - time.Duration(c.opts.BackoffSpread*rand.Float64()*float64(most)) //nolint:gosec // no secret
}

// Status returns the current state of the connection.
func (c *Client) Status() Status { return *c.status.Load() }

func (c *Client) setStatus(connected bool, err error) {
	next := Status{connected, time.Now(), err}
	if before := c.Status(); before.Connected == connected {
		next.Since = before.Since
	}
	c.status.Store(&next)
	c.connected.Set(map[bool]float64{true: 1}[connected])
}

// probes let the system detect within a minute that the peer of an idle connection is gone, for
// example after its machine failed. By default, gRPC uses the system's interval, which is hours.
var probes = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// keepAlive adds probes to the connections of its credentials. It wraps credentials because only
// they receive every connection, even a connection through a proxy.
type keepAlive struct {
	credentials.TransportCredentials
}

// ClientHandshake turns on the probes of a TCP connection.
func (k keepAlive) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(probes) // fails on systems without these settings
	}
	return k.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (k keepAlive) Clone() credentials.TransportCredentials {
	return keepAlive{k.TransportCredentials.Clone()}
}
