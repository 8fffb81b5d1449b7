package xds

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
)

// patience is how long a control plane may be silent before it counts as one that
// has nothing for this node.
const patience = 15 * time.Second

// mostReason is how much of the reason of a refusal is sent, in bytes.
const mostReason = 16 << 10

// attempt connects to the control plane, and applies what it sends until the
// stream ends. Each attempt has its own connection, so that the error is its own
// and not that of an earlier one, and that no back-off of gRPC's adds to the
// client's. reached reports whether there was a stream, worked whether that brought a
// response, or lasted for long without.
func (c *Client) attempt(ctx context.Context) (reached, worked bool, err error) {
	conn, err := grpc.NewClient(c.opts.Server, c.dial...)
	if err != nil {
		return false, false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.opts.Headers != nil {
		ctx = metadata.NewOutgoingContext(ctx, metadata.New(c.opts.Headers()))
	}
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, false, fmt.Errorf("connecting: %w", err)
	}
	c.setStatus(true, c.Status().Err)
	c.opts.Logger.Info("the control plane is connected", "server", c.opts.Server)
	opened := time.Now()
	silence := time.AfterFunc(patience, func() {
		if c.opts.Silent != nil {
			c.opts.Silent()
		}
	})
	defer silence.Stop()
	worked, err = c.answer(ctx, stream, silence)
	return true, worked || time.Since(opened) >= patience, err
}

// answer asks for all resources, and then applies and answers the newest response each time,
// until the stream or ctx ends. What it has agreed upon with the control plane ends with the
// stream: a control plane that was started again may give the same version to other resources.
// The first response stops silence, and shows that the control plane worked.
func (c *Client) answer(ctx context.Context, stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient, silence *time.Timer) (worked bool, err error) {
	newest := make(chan *discovery.DiscoveryResponse, 1)
	var ended error // why the stream ended, once newest is closed
	go func() {
		defer close(newest)
		for {
			var r *discovery.DiscoveryResponse
			if r, ended = stream.Recv(); ended != nil {
				return
			}
			select {
			case <-newest: // it was replaced before it was judged
			default:
			}
			newest <- r
		}
	}()
	var accepted, refused string // version of the last response that was applied, contents of the last one if that was refused
	request := &discovery.DiscoveryRequest{Node: c.node, TypeUrl: c.opts.Type}
	for {
		if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) { // receiving says why it is at its end
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
		silence.Stop()
		worked, request.ResponseNonce = true, r.GetNonce()
		now := contents(r)
		again := now == refused
		if !again {
			request.ErrorDetail = problem(c.opts.Apply(ctx, Update{Type: r.GetTypeUrl(), Version: r.GetVersionInfo(), Resources: r.GetResources()}))
		}
		if err := ctx.Err(); err != nil {
			return worked, err // what was stopped on its way was not bad
		}
		if request.ErrorDetail == nil {
			accepted, refused, c.applied = r.GetVersionInfo(), "", true
			request.VersionInfo = accepted
			continue
		}
		// A control plane made with go-control-plane sends what was refused again at once, until
		// a request names its version: only then it waits for another, which may be good.
		refused, request.VersionInfo = now, accepted
		if again {
			request.VersionInfo = r.GetVersionInfo()
		}
		if err := c.refusals.Wait(ctx); err != nil {
			return worked, err
		}
	}
}

// problem says in a request why a response was refused, nil if it was not.
func problem(err error) *rpcstatus.Status {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: strings.ToValidUTF8(text[:min(len(text), mostReason)], "")}
}

// contents identifies responses by type and resources: a version need not mean the
// same for long, and the resources come in any order.
func contents(r *discovery.DiscoveryResponse) string {
	sums := []string{r.GetTypeUrl()}
	for _, resource := range r.GetResources() {
		sum := sha256.Sum256(resource.GetValue())
		sums = append(sums, string(sum[:]))
	}
	slices.Sort(sums[1:])
	return strings.Join(sums, "")
}
