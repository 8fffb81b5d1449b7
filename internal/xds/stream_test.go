package xds

import (
	"net"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
)

// scripted is a control plane that sends what go-control-plane would not.
type scripted struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	responses []*discovery.DiscoveryResponse // each after one more request
	requests  chan *discovery.DiscoveryRequest
}

func (s *scripted) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	for _, response := range append(s.responses, nil) {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		s.requests <- request
		if response == nil {
			break
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

func TestStrangeResponses(t *testing.T) {
	utf8 := &anypb.Any{TypeUrl: configType, Value: []byte("\x0a\x01\xff")} // name: "\xff"
	tests := []struct {
		name     string
		response *discovery.DiscoveryResponse
		problem  string // "" if it is accepted
	}{
		{"another type", &discovery.DiscoveryResponse{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"},
			`a response of type "type.googleapis.com/envoy.config.cluster.v3.Cluster" is not allowed, allowed is ` + configType},
		{"no type", &discovery.DiscoveryResponse{}, `a response of type "" is not allowed`},
		{"bytes that are not UTF-8", &discovery.DiscoveryResponse{TypeUrl: configType, Resources: []*anypb.Any{utf8}}, "invalid UTF-8"},
		{"no version", &discovery.DiscoveryResponse{TypeUrl: configType}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.response.Nonce = "n1"
			script := &scripted{responses: []*discovery.DiscoveryResponse{tt.response}, requests: make(chan *discovery.DiscoveryRequest, 2)}
			server := grpc.NewServer()
			discovery.RegisterAggregatedDiscoveryServiceServer(server, script)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = server.Serve(listener) }()
			t.Cleanup(server.Stop)
			subscribe(t, Options{Server: listener.Addr().String()})

			<-script.requests
			answer := <-script.requests
			if answer.GetResponseNonce() != "n1" || answer.GetVersionInfo() != "" || answer.GetTypeUrl() != configType {
				t.Errorf("the answer is %v", answer)
			}
			if got := answer.GetErrorDetail().GetMessage(); (got == "") != (tt.problem == "") || !strings.Contains(got, tt.problem) {
				t.Errorf("got %q, want %q", got, tt.problem)
			}
		})
	}
}
