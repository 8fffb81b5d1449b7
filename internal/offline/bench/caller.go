package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// connectTimeout is how long a server may take to be reached.
const connectTimeout = 10 * time.Second

// caller sends one request at a time over one connection, and records what
// becomes of them.
type caller struct {
	recorder
	conn    grpc.ClientConnInterface
	key     func() int
	request *request
	wire    message // the request, encoded
	answer  message // the response, encoded
}

// connectAll connects to the servers. It returns the connections that were made
// whatever became of the others.
func connectAll(ctx context.Context, opts *Options) (conns []*grpc.ClientConn, err error) {
	transport := insecure.NewCredentials()
	if opts.TLS != nil {
		transport = credentials.NewTLS(opts.TLS)
	}
	for i := range opts.Connections {
		server := opts.Servers[i%len(opts.Servers)]
		conn, err := grpc.NewClient(server,
			grpc.WithTransportCredentials(transport),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{})),
			grpc.WithDisableServiceConfig(), // one in the DNS could have requests sent again
			grpc.WithNoProxy())
		if err != nil {
			return conns, fmt.Errorf("server %q: %w", server, err)
		}
		conns = append(conns, conn)
	}
	// All servers together have the time of one.
	inTime, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for i, conn := range conns {
		if err := connect(inTime, conn); err != nil {
			if ctx.Err() != nil {
				err = errors.New("interrupted while connecting")
			}
			return conns, fmt.Errorf("server %q: %w", opts.Servers[i%len(opts.Servers)], err)
		}
	}
	return conns, nil
}

// newCallers deals the callers out to the connections.
func newCallers[C grpc.ClientConnInterface](opts *Options, conns []C) (callers []*caller) {
	for i := range opts.Callers {
		callers = append(callers, &caller{
			recorder: newRecorder(opts.longest()),
			conn:     conns[i%len(conns)],
			key:      opts.Traffic.keys(uint64(i)),
			request:  opts.Traffic.request(),
		})
	}
	return callers
}

// connect waits until conn is ready, or has failed to be.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure:
			return whyNot(ctx, conn)
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("no connection within %v", connectTimeout)
		}
	}
}

// whyNot returns why conn has failed. gRPC says it to a call only, which it refuses.
func whyNot(ctx context.Context, conn *grpc.ClientConn) error {
	err := conn.Invoke(ctx, ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, &message{}, &message{})
	return fmt.Errorf("no connection: %s", plain(status.Convert(err).Message()))
}

// plain adds to what gRPC says of a connection what it leaves to be guessed.
func plain(why string) string {
	switch {
	case strings.Contains(why, "produced zero addresses"):
		return "the host is unknown: " + why
	case strings.Contains(why, "first record does not look like a TLS handshake"):
		return "it does not speak TLS: " + why
	case strings.Contains(why, "remote error: tls: "):
		// By TLS 1.3 a client that is refused takes the handshake for done.
		return "it refuses this client: " + why
	case strings.Contains(why, "server preface"):
		return "it is no gRPC server, or one with TLS: " + why
	default:
		return why
	}
}

func closeAll(conns []*grpc.ClientConn) {
	for _, conn := range conns {
		conn.Close()
	}
}

// ask sends a request and returns what is wanted of the answer.
func (c *caller) ask(ctx context.Context, timeout time.Duration) (r reply, err error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if c.wire, err = c.request.append(c.wire[:0], c.key()); err != nil {
		return reply{}, err
	}
	if err = c.conn.Invoke(ctx, ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, &c.wire, &c.answer); err != nil {
		c.wire = nil // the connection may not be done with it
		return reply{}, err
	}
	return readReply(c.answer)
}

// reply is what is wanted of a RateLimitResponse.
type reply struct {
	code    ratelimitv3.RateLimitResponse_Code // OK or OVER_LIMIT
	limited bool                               // there is a status with a limit
}

// The fields of the messages that are read.
const (
	overallCode  protowire.Number = 1 // of RateLimitResponse
	statuses     protowire.Number = 2 // of RateLimitResponse
	currentLimit protowire.Number = 2 // of a status
)

// readReply reads as much of a RateLimitResponse as is wanted.
func readReply(b []byte) (r reply, err error) {
	// Servers write the code once, and first.
	for len(b) > 0 && (r.code == 0 || !r.limited) {
		field, kind, number, text, n := nextField(b)
		if n < 0 {
			break
		}
		switch {
		case field == overallCode && kind == protowire.VarintType:
			r.code = ratelimitv3.RateLimitResponse_Code(number)
		case field == statuses && kind == protowire.BytesType && !r.limited:
			r.limited = holdsLimit(text)
		}
		b = b[n:]
	}
	switch r.code {
	case ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT:
		return r, nil
	}
	return reply{}, status.Errorf(codes.Unknown, "the answer has overall code %v", r.code)
}

// holdsLimit reports whether a status has a current_limit.
func holdsLimit(status []byte) bool {
	for len(status) > 0 {
		field, _, _, _, n := nextField(status)
		if n < 0 {
			break
		}
		if field == currentLimit {
			return true
		}
		status = status[n:]
	}
	return false
}

// nextField reads the first field of a message, of n bytes: a number, a text, or
// something else. n is negative if the message is malformed.
func nextField(b []byte) (field protowire.Number, kind protowire.Type, number uint64, text []byte, n int) {
	field, kind, tag := protowire.ConsumeTag(b)
	if tag < 0 {
		return 0, 0, 0, nil, tag
	}
	switch b = b[tag:]; kind {
	case protowire.VarintType:
		number, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		text, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(field, kind, b)
	}
	if n < 0 {
		return 0, 0, 0, nil, n
	}
	return field, kind, number, text, tag + n
}

// message is an encoded message.
type message []byte

// codec hands encoded messages through, so that the client costs little beside
// the server on one machine.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*message))}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m := v.(*message)
	*m = (*m)[:0]
	for _, part := range data {
		*m = append(*m, part.ReadOnlyData()...)
	}
	return nil
}
