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
	snapshots := cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	go send(*file, snapshots)
	plane := grpc.NewServer()
	answers := server.CallbackFuncs{StreamRequestFunc: report}
	discovery.RegisterAggregatedDiscoveryServiceServer(plane, server.NewServer(context.Background(), snapshots, answers))
	log.Fatal(plane.Serve(listener))
}

// send sends the rules to the node "weir" whenever their text is new. Each change has a new
// version: a version that Weir has had would not be sent again after a refusal.
func send(file string, snapshots cache.SnapshotCache) {
	sent, changes := "", 0
	for range time.Tick(100 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if err != nil || string(text) == sent {
			continue
		}
		sent = string(text)
		rules := new(ratelimit.RateLimitConfig)
		if err := protojson.Unmarshal(text, rules); err != nil {
			log.Print(err)
			continue
		}
		changes++
		version := strconv.Itoa(changes)
		snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: {rules}})
		if err == nil {
			err = snapshots.SetSnapshot(context.Background(), "weir", snapshot)
		}
		log.Printf("sent version %s (error: %v)", version, err)
	}
}

// report logs what Weir says of the rules that it got.
func report(_ int64, request *discovery.DiscoveryRequest) error {
	if refused := request.GetErrorDetail(); refused != nil {
		log.Printf("refused, version %s serves on: %s", request.GetVersionInfo(), refused.GetMessage())
	} else if request.GetVersionInfo() != "" {
		log.Printf("version %s serves", request.GetVersionInfo())
	}
	return nil
}
