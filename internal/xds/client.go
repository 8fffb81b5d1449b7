package xds

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Options say whom a Client asks for what. Server, Type, Apply, Retry, Backoff
// and Registerer are required.
type Options struct {
	// Server is where the control plane is: host:port, or another target of gRPC
	// such as unix:/run/xds.sock.
	Server string
	// Credentials are those of TLS, nil for plain text.
	Credentials credentials.TransportCredentials
	// NodeID and NodeMetadata tell the control plane who asks.
	NodeID       string
	NodeMetadata map[string]string
	// Headers, if not nil, returns those that go with a new stream.
	Headers func() map[string]string
	// MaxMessageSize bounds a response, in bytes; 0 is 4 MiB.
	MaxMessageSize int

	// Type is the URL of the type of the resources.
	Type string
	// Apply is called with every response, one at a time. Its error refuses the
	// response and is sent to the control plane.
	Apply func(Update) error
	// Refused is called with a response that is of another type and therefore never
	// reaches Apply; nil drops that.
	Refused func(version string, problem error)
	// Tell is called with what the log shall know of responses that were refused:
	// at most once in Retry, and with the same problem once, until a response is good;
	// nil drops that. Logger hears how many responses were left out.
	Tell func(version string, problem error)
	// Silent is called if the control plane is reached and has sent nothing for
	// 15 s, which means that it has nothing for this node; nil drops that.
	Silent func()

	// Retry is how long to wait before a control plane is tried again that could
	// not be reached. It grows while that goes on. Between two refusals of responses
	// is this time, too.
	Retry time.Duration
	// Backoff is how long to wait before a stream is opened again that has ended. The
	// first attempt comes within a second, but only once in Backoff.Initial.
	Backoff Backoff

	// Logger hears of streams that begin and end, and of responses left out; nil
	// drops that.
	Logger *slog.Logger
	// Registerer receives the client's metrics.
	Registerer prometheus.Registerer
}

// Backoff is how long to wait between attempts. The time doubles with each that
// fails.
type Backoff struct {
	// Initial and Max bound the time, before it is spread.
	Initial, Max time.Duration
	// Spread is the part by which a time is made longer or shorter at random, 0
	// to 1, so that many clients do not come back at once.
	Spread float64
}

// Update is what the control plane has now.
type Update struct {
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
	opts    Options
	node    *core.Node
	dial    []grpc.DialOption
	metrics *metrics

	retries  *retries
	refusals refusals
	pace     *rate.Limiter // of responses
	applied  bool          // a response was

	mu     sync.Mutex
	status Status
}

// How soon a control plane that does not answer is noticed.
const (
	connectTimeout = 10 * time.Second // for a connection and its TLS handshake
	// Servers made with grpc-go end connections that ping more often than every
	// 5 min, unless they are told otherwise.
	pingAfter   = 6 * time.Minute
	pingTimeout = 20 * time.Second
)

// window is how much a control plane may send before it is read, in bytes. What it
// sent too fast is old, and delays what comes after it. gRPC makes room for a larger
// response when it reads that.
const window = 64 << 10

// defaultMaxMessageSize is that of gRPC, in bytes.
const defaultMaxMessageSize = 4 << 20

// New checks the options and returns a client that has not asked for anything
// yet.
func New(opts Options) (*Client, error) {
	if opts.Credentials == nil {
		opts.Credentials = insecure.NewCredentials()
	}
	if opts.MaxMessageSize == 0 {
		opts.MaxMessageSize = defaultMaxMessageSize
	}
	if opts.Refused == nil {
		opts.Refused = func(string, error) {}
	}
	if opts.Tell == nil {
		opts.Tell = func(string, error) {}
	}
	if opts.Silent == nil {
		opts.Silent = func() {}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		opts: opts,
		node: &core.Node{Id: opts.NodeID, Metadata: nodeMetadata(opts.NodeMetadata)},
		dial: []grpc.DialOption{
			grpc.WithTransportCredentials(keepAlive{opts.Credentials}),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: grpcbackoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(opts.MaxMessageSize)),
			grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		},
		retries:  newRetries(opts.Retry, opts.Backoff),
		refusals: refusals{interval: opts.Retry},
		pace:     rate.NewLimiter(responseRate, responseBurst),
		status:   Status{Since: time.Now()},
	}
	conn, err := grpc.NewClient(opts.Server, c.dial...)
	if err != nil {
		return nil, fmt.Errorf("control plane %q: %w", opts.Server, err)
	}
	conn.Close()
	c.metrics = newMetrics(opts.Registerer)
	return c, nil
}

func nodeMetadata(pairs map[string]string) *structpb.Struct {
	m := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(pairs))}
	for name, value := range pairs {
		m.Fields[name] = structpb.NewStringValue(value)
	}
	return m
}

// Run keeps a stream to the control plane open until ctx ends.
func (c *Client) Run(ctx context.Context) {
	c.opts.Logger.Info("asking the control plane", "server", c.opts.Server, "node", c.opts.NodeID)
	for {
		reached, worked, err := c.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := c.retries.wait(time.Now(), reached, worked)
		c.disconnected(err)
		args := []any{"server", c.opts.Server, "err", err, "retry_in", wait.Round(time.Millisecond)}
		if c.applied {
			c.opts.Logger.Warn("the control plane is not connected, what it sent last stays", args...)
		} else {
			c.opts.Logger.Warn("the control plane is not connected, there are no rules yet", args...)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Status returns how the control plane is reached now.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *Client) connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = Status{Connected: true, Since: time.Now(), Err: c.status.Err}
	c.metrics.connected.Set(1)
	c.opts.Logger.Info("the control plane is connected", "server", c.opts.Server)
}

func (c *Client) disconnected(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := c.status.Since
	if c.status.Connected {
		since = time.Now()
	}
	c.status = Status{Since: since, Err: err}
	c.metrics.connected.Set(0)
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
