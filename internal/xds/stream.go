package xds

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	grpcstatus "google.golang.org/grpc/status"
)

// patience is the time after which a control plane that sends no response is assumed to have no
// resources for this node.
const patience = 15 * time.Second

// errSilent is the reason for ending a stream that has had no response for 2*patience. Another replica
// of the control plane may have resources.
var errSilent = errors.New("the control plane sends no response")

// maxReason is the maximum length of the error in a refusal, in bytes.
const maxReason = 16 << 10

// attempt connects to the control plane and applies its responses until the stream ends. Each
// attempt has its own connection, so that err is not the error of an earlier attempt and gRPC's
// back-off does not add to the waits of the client. reached reports whether there was a stream.
// worked reports whether the stream had a response or lasted at least as long as patience.
func (c *Client) attempt(ctx context.Context) (reached, worked bool, err error) {
	names := grpc.WithResolvers(silentLast{Builder: c.names, silent: maps.Clone(c.silent)})
	conn, err := grpc.NewClient(c.opts.Server, append(c.dial[:len(c.dial):len(c.dial)], names)...)
	if err != nil {
		return false, false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.opts.Headers != nil {
		ctx = metadata.NewOutgoingContext(ctx, metadata.New(c.opts.Headers()))
	}
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, false, fmt.Errorf("connecting: %w", err)
	}
	if !c.Status().Connected {
		c.setStatus(true, c.Status().Err)
		c.opts.Logger.Info("the control plane is connected", "server", c.opts.Server)
	}
	opened := time.Now()
	silence := time.AfterFunc(c.patience, func() {
		if c.opts.Silent != nil {
			c.opts.Silent()
		}
	})
	end := time.AfterFunc(2*c.patience, func() { cancel(errSilent) })
	heard := func() { silence.Stop(); end.Stop() }
	defer heard()
	worked, err = c.answer(ctx, stream, heard)
	if reached, ok := peer.FromContext(stream.Context()); ok && worked {
		delete(c.silent, reached.Addr.String())
	} else if ok && errors.Is(context.Cause(ctx), errSilent) {
		c.silent[reached.Addr.String()] = time.Now()
		return true, false, errSilent
	}
	return true, worked || time.Since(opened) >= c.patience, err
}

// silentLast resolves names like its Builder, for its ClientConn. It moves the addresses in the map
// silent behind all other addresses, in the order of their times.
type silentLast struct {
	resolver.Builder
	resolver.ClientConn
	silent map[string]time.Time
}

// Build implements resolver.Builder.
func (s silentLast) Build(target resolver.Target, conn resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	s.ClientConn = conn
	return s.Builder.Build(target, s, opts)
}

// UpdateState implements resolver.ClientConn. gRPC tries the endpoints in this order.
func (s silentLast) UpdateState(state resolver.State) error {
	state.Endpoints = slices.SortedStableFunc(slices.Values(state.Endpoints), func(a, b resolver.Endpoint) int {
		return s.silent[a.Addresses[0].Addr].Compare(s.silent[b.Addresses[0].Addr])
	})
	return s.ClientConn.UpdateState(state)
}

// answer requests all resources, then applies and answers the newest response until the stream
// ends or ctx is done. worked reports whether there was a response. It calls heard after
// each response. Versions are not kept for the next stream, because a restarted control plane may
// reuse them for other resources.
func (c *Client) answer(ctx context.Context, stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient, heard func()) (worked bool, err error) {
	newest := make(chan *discovery.DiscoveryResponse, 1)
	var ended error // error of the stream, valid after newest is closed
	go func() {
		defer close(newest)
		for {
			var r *discovery.DiscoveryResponse
			if r, ended = stream.Recv(); ended != nil {
				return
			}
			select {
			case <-newest: // drop a response that was not applied yet
			default:
			}
			newest <- r
		}
	}()
	var accepted, refused string // version of the last applied response; contents of the last response if it was refused
	request := &discovery.DiscoveryRequest{Node: c.node, TypeUrl: c.opts.Type}
	for {
		if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) { // io.EOF means that Recv returns the error of the stream
			return worked, fmt.Errorf("sending: %w", err)
		}
		r, open := <-newest
		switch {
		case open:
		case grpcstatus.Code(ended) == codes.ResourceExhausted:
			return worked, fmt.Errorf("receiving, at most %d bytes at once (see XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES): %w", c.opts.MaxMessageSize, ended)
		default:
			return worked, fmt.Errorf("receiving: %w", ended)
		}
		heard()
		worked, request.ResponseNonce = true, r.GetNonce()
		now := contents(r)
		again := now == refused
		if !again {
			request.ErrorDetail = problem(c.opts.Apply(ctx, Update{Type: r.GetTypeUrl(), Version: r.GetVersionInfo(), Resources: r.GetResources()}))
		}
		if err := ctx.Err(); err != nil {
			return worked, err // Apply was interrupted, so its error does not refuse the response
		}
		if request.ErrorDetail == nil {
			accepted, refused, c.applied = r.GetVersionInfo(), "", true
			request.VersionInfo = accepted
			if err := c.loads.Wait(ctx); err != nil {
				return worked, err
			}
			continue
		}
		// go-control-plane repeats a refused response immediately until a request has its version.
		// Only then does it wait for new resources.
		refused, request.VersionInfo = now, accepted
		if again {
			request.VersionInfo = r.GetVersionInfo()
		}
		if err := c.refusals.Wait(ctx); err != nil {
			return worked, err
		}
	}
}

// problem returns err as the error detail of a request, or nil if err is nil.
func problem(err error) *rpcstatus.Status {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: strings.ToValidUTF8(text[:min(len(text), maxReason)], "")}
}

// contents returns a string that is equal for responses with equal type and resources, whatever
// the order of the resources. It ignores versions, because a control plane may reuse them.
func contents(r *discovery.DiscoveryResponse) string {
	sums := []string{r.GetTypeUrl()}
	for _, resource := range r.GetResources() {
		sum := sha256.Sum256(resource.GetValue())
		sums = append(sums, string(sum[:]))
	}
	slices.Sort(sums[1:])
	return strings.Join(sums, "")
}
