package rls_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
	"weir/internal/rls"
	"weir/internal/telemetry"
)

// This example sends requests to POST /json. A Service also serves gRPC.
func ExampleService() {
	tree, err := descriptors.Load([]descriptors.File{{Name: "api.yaml", Data: []byte(`
domain: api
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 2}}
`)}}, descriptors.Options{})
	if err != nil {
		panic(err)
	}
	registry, logger := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	service := rls.New(rls.Options{
		Decider: &plan.Decider{
			Planner: plan.New(plan.Options{}),
			Rules:   func() *descriptors.Tree { return tree },
			Store:   memory.New(memory.Options{}),
			Usage:   telemetry.New(registry, logger, 0.8),
		},
		Registerer: registry, Logger: logger,
	})
	for range 3 {
		body := strings.NewReader(`{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}`)
		answer := httptest.NewRecorder()
		service.JSONHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/json", body))
		fmt.Println(answer.Code, http.StatusText(answer.Code))
	}
	// Output:
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
}
