package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/server"
	"weir/internal/settings"
)

// Example serves one rule, asks twice over HTTP, and drains.
func Example() {
	dir, err := os.MkdirTemp("", "rules")
	defer os.RemoveAll(dir)
	rules := "{domain: api, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}"
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rules), 0o600)); err != nil {
		panic(err)
	}
	var s struct{ settings.Settings }
	flags := "--config=" + dir + " --drain-delay=0s --host=127.0.0.1 --port=0 --grpc-host=127.0.0.1 --grpc-port=0 --debug-port=0 --prometheus-addr=127.0.0.1:0"
	if _, err := kong.Must(&s, settings.Parsing()).Parse(strings.Fields(flags)); err != nil {
		panic(err)
	}
	app, err := server.New(server.Options{Settings: s.Settings, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Hurry: context.Background()})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- app.Run(ctx) }()

	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 2 {
		request := `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}`
		response, err := client.Post("http://"+app.HTTPAddr()+"/json", "application/json", strings.NewReader(request))
		if err != nil {
			panic(err)
		}
		response.Body.Close()
		fmt.Println(response.Status)
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// 200 OK
	// 429 Too Many Requests
	// <nil>
}
