// Command floor is the smallest possible rate limit service in Go: a grpc-go server
// with the library's defaults that admits everything. The costs of other servers are
// multiples of its cost, so that figures from different machines can be compared.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

type floor struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
}

// ShouldRateLimit answers with one full status for each descriptor.
func (floor) ShouldRateLimit(_ context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	response := &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}
	for range r.Descriptors {
		response.Statuses = append(response.Statuses, &ratelimitv3.RateLimitResponse_DescriptorStatus{
			Code: ratelimitv3.RateLimitResponse_OK,
			CurrentLimit: &ratelimitv3.RateLimitResponse_RateLimit{
				RequestsPerUnit: 10, Unit: ratelimitv3.RateLimitResponse_RateLimit_MINUTE,
			},
			LimitRemaining:     5,
			DurationUntilReset: durationpb.New(5 * time.Second),
		})
	}
	return response, nil
}

// The only argument is the address to listen on.
func main() {
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(s, floor{})
	return s.Serve(listener)
}
