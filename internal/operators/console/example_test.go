package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/operators/api"
	"weir/internal/operators/console"
)

func ExampleNew() {
	server := &api.Server{Status: func() api.Status { return api.Status{} }}
	page := httptest.NewRecorder()
	console.New(server, console.Options{StoreMetrics: prometheus.NewRegistry()}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/console/", nil))
	fmt.Println(page.Code) // of the page to sign in: nobody has let this request in, as api.Server does
	// Output: 401
}
