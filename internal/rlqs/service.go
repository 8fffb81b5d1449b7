package rlqs

import (
	"context"
	"sync"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// After a round, Run waits for roundPause, or for pauseFactor times the duration of the round if that is
// longer, because a round visits all members of its buckets. Envoys that report during the wait share a round.
const (
	roundPause  = 100 * time.Millisecond
	pauseFactor = 15
)

// Run makes rounds until ctx ends.
func (p *Pool) Run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		p.Round(ctx, time.Now)
		select {
		case <-ctx.Done():
		case <-time.After(min(max(roundPause, pauseFactor*time.Since(began)), sweepEvery)):
		}
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-time.After(sweepEvery):
		}
	}
}

// Register adds the service to a gRPC server, whose codec must call Encode and Decode of the messages.
func (p *Pool) Register(reg grpc.ServiceRegistrar) {
	desc := quotav3.RateLimitQuotaService_ServiceDesc
	desc.HandlerType = (*any)(nil)
	desc.Streams = []grpc.StreamDesc{{
		StreamName: "StreamRateLimitQuotas", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error { return p.serve(stream) },
	}}
	reg.RegisterService(&desc, p)
}

// serve serves a stream until it ends. A client that does not read delays only its own answers.
func (p *Pool) serve(stream grpc.ServerStream) error {
	r := new(report)
	if err := stream.RecvMsg(r); err != nil {
		return err
	}
	from, _ := peer.FromContext(stream.Context()) // only now, because Context removes the time limit for the first message
	e := p.NewEnvoy(from.Addr.String())
	var sends sync.WaitGroup
	sends.Go(func() {
		for a := range e.answers {
			_ = stream.SendMsg(&a) // after an error, RecvMsg fails
		}
	})
	defer sends.Wait()
	defer p.Remove(e)
	for {
		p.Report(time.Now(), e, r)
		*r = report{domain: r.domain} // later reports may lack the domain
		if err := stream.RecvMsg(r); err != nil {
			return err
		}
	}
}
