package rlqs

import (
	"context"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// roundPause is the least time between two rounds. Envoys that report within it share a round.
const roundPause = 20 * time.Millisecond

// Run makes rounds until ctx ends.
func (p *Pool) Run(ctx context.Context) {
	for {
		p.Round(ctx, time.Now)
		select {
		case <-ctx.Done():
			return
		case <-time.After(roundPause):
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-time.After(askEvery):
		}
	}
}

// Register adds the service to a gRPC server, whose codec must let messages encode themselves.
func (p *Pool) Register(reg grpc.ServiceRegistrar) {
	desc := quotav3.RateLimitQuotaService_ServiceDesc
	desc.HandlerType = (*any)(nil)
	desc.Streams = []grpc.StreamDesc{{
		StreamName: "StreamRateLimitQuotas", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error { return p.serve(stream) },
	}}
	reg.RegisterService(&desc, p)
}

// serve serves a stream until it ends. A client that does not read blocks only its own sends.
func (p *Pool) serve(stream grpc.ServerStream) error {
	r := new(report)
	if err := stream.RecvMsg(r); err != nil {
		return err
	}
	ctx := stream.Context() // only now, because this call removes the time limit for the first message
	e := p.NewEnvoy("unknown")
	if from, ok := peer.FromContext(ctx); ok {
		e.name = from.Addr.String()
	}
	defer func() { p.Remove(time.Now(), e) }()
	failed := make(chan error, 1)
	go func() {
		domain := r.domain // later reports may lack it
		for {
			r.domain = domain
			p.Report(time.Now(), e, r)
			*r = report{}
			if err := stream.RecvMsg(r); err != nil {
				failed <- err
				return
			}
		}
	}()
	for {
		select {
		case a := <-e.answers:
			if err := stream.SendMsg(&a); err != nil {
				return err
			}
		case err := <-failed:
			return err
		}
	}
}
