package server

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"weir/internal/descriptors"
	"weir/internal/testenv"
)

// floodPlane is a control plane that sends one response after the other, as fast as
// they are taken, until it is told to stop. Then it sends good rules.
type floodPlane struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	configs []string // each a RateLimitConfig in JSON, sent in turn
	rename  bool     // each is sent under a name of its own, which problems tell
	stop    chan struct{}
}

func (p floodPlane) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	var configs []*ratelimit.RateLimitConfig
	for _, text := range append(p.configs, sent("x", 3)) {
		config := new(ratelimit.RateLimitConfig)
		if err := protojson.Unmarshal([]byte(text), config); err != nil {
			return err
		}
		configs = append(configs, config)
	}
	go func() { // else the server waits for room to answer, and reads no further
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
	good := len(configs) - 1
	for i := 0; ; i++ {
		config := configs[i%good]
		if p.rename {
			config.Name = fmt.Sprint("x", i)
		}
		stopped := false
		select {
		case <-p.stop:
			config, stopped = configs[good], true
		default:
		}
		value, err := proto.Marshal(config)
		if err != nil {
			return err
		}
		resource := &anypb.Any{TypeUrl: descriptors.ResourceType, Value: value}
		if err := stream.Send(&discovery.DiscoveryResponse{TypeUrl: descriptors.ResourceType, VersionInfo: fmt.Sprint(i), Resources: []*anypb.Any{resource}}); err != nil {
			return err
		}
		if stopped {
			<-stream.Context().Done()
			return nil
		}
	}
}

// TestFloodOfResponses holds what a control plane can do that sends as much as it
// can: to the log, to the processors, and to the good rules that it sends at last.
func TestFloodOfResponses(t *testing.T) {
	const one = `{"key": "user", "rate_limit": {"unit": "UNKNOWN", "requests_per_unit": 3}}`
	// Few large ones are on their way when the flood ends, so that good rules come soon after.
	large := strings.Replace(one, `"user"`, `"user", "value": "`+strings.Repeat("x", 800)+`"`, 1)
	bad := `{"name": "x", "domain": "api", "descriptors": [` + large + `]}`
	many := `{"name": "x", "domain": "api", "descriptors": [` + strings.Repeat(one+",", 200) + one + `]}`
	const interval, flood = 250 * time.Millisecond, 500 * time.Millisecond
	for _, c := range []struct {
		name   string
		plane  floodPlane
		always bool // told in each interval, not once
	}{
		{"the same problem", floodPlane{configs: []string{bad}}, false},
		{"new problems", floodPlane{configs: []string{bad}, rename: true}, true},
		{"many problems", floodPlane{configs: []string{many}, rename: true}, true},
		{"good and bad in turn", floodPlane{configs: []string{sent("x", 9), bad}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server, plane := grpc.NewServer(), c.plane
			plane.stop = make(chan struct{})
			discovery.RegisterAggregatedDiscoveryServiceServer(server, plane)
			go func() { _ = server.Serve(listener) }()
			t.Cleanup(server.Stop)

			started := time.Now()
			f := start(t, fromControlPlane(&testenv.ControlPlane{Addr: listener.Addr().String()}, "--config-grpc-xds-server-connect-retry-interval="+interval.String())...)
			f.wantLog("new rules refused")
			// A quarter of a processor, of server and control plane together.
			testenv.InProcessorTime(t, flood/4, func() { testenv.Pass(flood) })
			text, most := f.log.String(), 1
			intervals := 1 + int(time.Since(started)/interval)
			if c.always {
				most = intervals
			}
			if n := strings.Count(text, "new rules refused"); n > most {
				t.Errorf("%d refusals were logged within %d intervals, want at most %d", n, intervals, most)
			}
			// A refusal has a hundred records; each response that is good has one.
			if bytes := (20*most + 40*intervals) << 10; len(text) > bytes {
				t.Errorf("%d bytes were logged within %d intervals, want at most %d", len(text), intervals, bytes)
			}

			close(plane.stop)
			f.wantLimit(3)
		})
	}
}
