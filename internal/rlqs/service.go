package rlqs

import (
	"context"
	"sync"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// Between two rounds, Run waits for at least roundPause, and for pauseFactor times the duration of
// a round, because a round visits all members of its buckets. Envoys that report meanwhile share a round.
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
		*r = report{domain: r.domain} // later reports may lack it
		if err := stream.RecvMsg(r); err != nil {
			return err
		}
	}
}
