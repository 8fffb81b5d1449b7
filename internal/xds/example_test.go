package xds_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"

	"weir/internal/xds"
)

const typeURL = "type.googleapis.com/google.protobuf.StringValue"

// onePlane is a control plane that sends one response.
type onePlane struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
}

func (onePlane) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	if err := stream.Send(&discovery.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: "7", Resources: []*anypb.Any{{TypeUrl: typeURL}}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func ExampleClient_Run() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(server, onePlane{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	ctx, stop := context.WithCancel(context.Background())
	client, err := xds.New(xds.Options{
		Server: listener.Addr().String(), NodeID: "weir", Type: typeURL, Credentials: insecure.NewCredentials(), MaxMessageSize: 1 << 20,
		Apply: func(_ context.Context, u xds.Update) error {
			fmt.Println("version", u.Version, "resources", len(u.Resources))
			stop() // after one response
			return nil
		},
		Retry: time.Second, BackoffInitial: time.Second, BackoffMax: time.Minute,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client.Run(ctx)
	// Output: version 7 resources 1
}
