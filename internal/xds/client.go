package xds

import (
	"cmp"
	"context"
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
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Options say whom a Client asks for what. All but NodeID, NodeMetadata, Headers,
// MaxMessageSize and Silent are required.
type Options struct {
	Server      string // host:port, or another target of gRPC such as unix:/run/xds.sock
	Credentials credentials.TransportCredentials
	// NodeID and NodeMetadata tell the control plane who asks.
	NodeID       string
	NodeMetadata map[string]string
	// Headers, if not nil, returns those that go with a new stream.
	Headers        func() map[string]string
	MaxMessageSize int // of a response, in bytes; 0 means 4 MiB

	Type string // the URL of the type of the resources
	// Apply is called with one response at a time, the newest that has arrived, because it
	// replaces all earlier ones. Its error refuses the response and is sent to the control
	// plane, unless the context has ended. A response that comes again after it was refused is
	// refused without asking.
	Apply func(context.Context, Update) error
	// Silent, if not nil, is called if the control plane is connected and has sent
	// nothing for 15 s, which means that it has nothing for this node.
	Silent func()

	// Retry is how long to wait before the next attempt to reach a control plane. It
	// grows with each. It is also the time between two refusals, after the first few.
	Retry time.Duration
	// BackoffInitial is how long to wait before a stream that has ended is opened again. The
	// first attempt after a stream that worked comes within a second.
	BackoffInitial time.Duration
	// BackoffMax bounds these waits, which double with each attempt that fails.
	BackoffMax time.Duration
	// BackoffSpread is the part, 0 to 1, by which a wait is longer or shorter at random, so
	// that many clients do not come back at once.
	BackoffSpread float64

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// refusalsAtOnce is how many refusals are sent before they are paced: two for a response that
// comes twice, and as many for the next one.
const refusalsAtOnce = 4

// Update is what the control plane has now.
type Update struct {
	Type      string // the type that the response names
	Version   string // as the control plane names it, may be empty
	Resources []*anypb.Any
}

// Status says how a Client reaches its control plane.
type Status struct {
	Connected bool
	Since     time.Time // of Connected, or of its opposite
	Err       error     // why the last stream ended or could not be opened
}

// Client subscribes to the resources of a control plane.
type Client struct {
	opts Options
	node *core.Node
	dial []grpc.DialOption

	refusals *rate.Limiter // on all streams
	applied  bool          // a response was

	unreachable, ended *backoff.ExponentialBackOff

	status    atomic.Pointer[Status]
	connected prometheus.Gauge
}

// New checks the options and returns a client that has not asked for anything
// yet.
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
			// Servers made with grpc-go end connections that ping more often than every 5 min.
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 20 * time.Second}),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: grpcbackoff.DefaultConfig, MinConnectTimeout: 10 * time.Second}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(opts.MaxMessageSize)),
		},
		refusals:    rate.NewLimiter(rate.Every(opts.Retry), refusalsAtOnce),
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

// Run keeps a stream to the control plane open until ctx ends.
func (c *Client) Run(ctx context.Context) {
	c.opts.Logger.Info("connecting to the control plane", "server", c.opts.Server, "node", c.opts.NodeID)
	for soon := true; ; soon = false {
		reached, worked, err := c.attempt(ctx)
		if ctx.Err() != nil {
			return
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

// wait returns how long to wait after an attempt. reached reports whether there was a
// stream. After one that worked the next comes soon: most control planes are away for a
// moment only.
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

// Status returns how the control plane is reached now.
func (c *Client) Status() Status { return *c.status.Load() }

func (c *Client) setStatus(connected bool, err error) {
	next := Status{connected, time.Now(), err}
	if before := c.Status(); before.Connected == connected {
		next.Since = before.Since
	}
	c.status.Store(&next)
	c.connected.Set(map[bool]float64{true: 1}[connected])
}

// probes let the system notice within a minute that the other side of a silent
// connection has gone, as after the loss of its machine. gRPC asks for probes,
// too, but in the rhythm of the system, which is hours.
var probes = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// keepAlive are credentials that set up TCP on the way: they are the one place
// that gets each connection whichever way gRPC made it, also through a proxy.
type keepAlive struct {
	credentials.TransportCredentials
}

// ClientHandshake turns on the probes of a TCP connection.
func (k keepAlive) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(probes) // fails on systems that have no such settings
	}
	return k.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// Clone is part of the interface.
func (k keepAlive) Clone() credentials.TransportCredentials {
	return keepAlive{k.TransportCredentials.Clone()}
}
