// Command controlplane sends the rules of a file to Weir by xDS, and sends them again
// when the file changes.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"strconv"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:18000", "address to listen on")
	file := flag.String("rules", "examples/xds/rules.json", "file of the rules")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", listener.Addr())
	answers := server.CallbackFuncs{StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
		log.Printf("version %q serves (refusal: %q)", r.GetVersionInfo(), r.GetErrorDetail().GetMessage())
		return nil
	}}
	snapshots, plane := cache.NewSnapshotCache(false, cache.IDHash{}, nil), grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(plane, server.NewServer(context.Background(), snapshots, answers))
	go func() { log.Fatal(plane.Serve(listener)) }()
	// Each text gets a new version. After a refusal, an old version would not be sent again.
	version, sent := 0, ""
	for range time.Tick(100 * time.Millisecond) {
		if text, err := os.ReadFile(*file); err == nil && string(text) != sent {
			version, sent = version+1, string(text)
			log.Printf("sent version %d (error: %v)", version, send(text, version, snapshots))
		}
	}
}

// send sends rules to the node "weir".
func send(text []byte, version int, snapshots cache.SnapshotCache) error {
	rules := new(ratelimit.RateLimitConfig)
	if err := protojson.Unmarshal(text, rules); err != nil {
		return err
	}
	snapshot, err := cache.NewSnapshot(strconv.Itoa(version), map[resource.Type][]types.Resource{resource.RateLimitConfigType: {rules}})
	if err != nil {
		return err
	}
	return snapshots.SetSnapshot(context.Background(), "weir", snapshot)
}
