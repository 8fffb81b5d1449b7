package xds

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
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

// attempt connects to the control plane, and applies what it sends until the
// stream ends. Each attempt has its own connection, so that the error is its own
// and not that of an earlier one, and that no back-off of gRPC's adds to the
// client's. reached reports whether there was a stream, worked whether that showed
// that the control plane works.
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
	ads, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, false, fmt.Errorf("connecting: %w", err)
	}
	c.setStatus(true, c.Status().Err)
	c.opts.Logger.Info("the control plane is connected", "server", c.opts.Server)
	s := stream{Client: c, ads: ads}
	err = s.run(ctx)
	return true, s.worked, err
}

// stream is one stream of discovery. What it has agreed upon with the control
// plane ends with it: a control plane that was started anew may give the same
// version to other resources.
type stream struct {
	*Client
	ads      discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	worked   bool   // it brought a response, or lasted for long without
	accepted string // version of the last response that was applied

	problem error             // why the last response was refused, nil if it was not
	refused [sha256.Size]byte // digest of that response
	version string            // its version
	nonce   string            // its nonce
	held    <-chan time.Time  // until the refusal may be sent, nil if none is held back
}

// received is what the stream had next: a response, or an error at its end.
type received struct {
	response *discovery.DiscoveryResponse
	err      error
}

func (s *stream) run(ctx context.Context) error {
	if err := s.send("", nil); err != nil {
		return err
	}
	silence := time.NewTimer(patience)
	defer silence.Stop()
	next := make(chan received)
	go s.receiveAll(ctx, next)
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.held:
			err = s.refuse()
		case <-silence.C:
			s.worked = true
			if s.opts.Silent != nil {
				s.opts.Silent()
			}
		case r := <-next:
			silence.Stop()
			if err = r.err; err == nil {
				s.worked = true
				err = s.answer(r.response)
			}
		}
		if err != nil {
			return err
		}
	}
}

// receiveAll hands over what comes until the stream or ctx ends. So good resources need
// not wait for a refusal that is held back.
func (s *stream) receiveAll(ctx context.Context, next chan<- received) {
	for {
		response, err := s.ads.Recv()
		switch {
		case grpcstatus.Code(err) == codes.ResourceExhausted:
			err = fmt.Errorf("receiving, at most %d bytes at once (see XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES): %w", s.opts.MaxMessageSize, err)
		case err != nil:
			err = fmt.Errorf("receiving: %w", err)
		}
		select {
		case next <- received{response, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// answer applies a response, and accepts or refuses it. A refusal may be held back:
// control planes made with go-control-plane send at once again what was refused.
func (s *stream) answer(r *discovery.DiscoveryResponse) error {
	if sum := digest(r); s.problem == nil || sum != s.refused {
		s.refused = sum
		s.problem = s.opts.Apply(Update{Type: r.GetTypeUrl(), Version: r.GetVersionInfo(), Resources: r.GetResources()})
		s.applied = s.applied || s.problem == nil
	}
	if err := s.ads.Context().Err(); err != nil {
		return err // what was stopped on its way was not bad
	}
	if s.problem == nil {
		s.held = nil
		s.accepted = r.GetVersionInfo()
		return s.send(r.GetNonce(), nil)
	}
	s.version, s.nonce = r.GetVersionInfo(), r.GetNonce() // the control plane waits for no older one
	if wait := time.Until(s.refusal); wait > 0 {
		if s.held == nil {
			s.held = time.After(wait)
		}
		return nil
	}
	return s.refuse()
}

// refuse reports why the last response was refused.
func (s *stream) refuse() error {
	s.held, s.refusal = nil, time.Now().Add(s.opts.Retry)
	if s.opts.Refused != nil {
		s.opts.Refused(s.version, s.problem)
	}
	return s.send(s.nonce, s.problem)
}

// digest identifies responses by type and resources: a version need not mean the
// same for long, and the resources come in any order.
func digest(r *discovery.DiscoveryResponse) [sha256.Size]byte {
	sums := []string{r.GetTypeUrl()}
	for _, resource := range r.GetResources() {
		sum := sha256.Sum256(append(strconv.AppendQuote(nil, resource.GetTypeUrl()), resource.GetValue()...))
		sums = append(sums, string(sum[:]))
	}
	slices.Sort(sums[1:])
	return sha256.Sum256([]byte(strings.Join(sums, "\x00")))
}

// send asks for all resources. It accepts the response of a nonce, or refuses it
// because of a problem; a stream begins without either.
func (s *stream) send(nonce string, problem error) error {
	request := &discovery.DiscoveryRequest{
		Node:          s.node,
		TypeUrl:       s.opts.Type,
		VersionInfo:   s.accepted,
		ResponseNonce: nonce,
	}
	if problem != nil {
		request.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: bounded(problem.Error())}
	}
	if err := s.ads.Send(request); err != nil && !errors.Is(err, io.EOF) { // receiving says why it is at its end
		return fmt.Errorf("sending: %w", err)
	}
	return nil
}

// bounded cuts a list of problems so that it fits into any message.
func bounded(text string) string {
	const longest = 16 << 10 // bytes
	if len(text) <= longest {
		return text
	}
	text = strings.ToValidUTF8(text[:longest], "")
	if end := strings.LastIndexByte(text, '\n'); end > 0 {
		text = text[:end]
	}
	return text + "\nand more"
}
