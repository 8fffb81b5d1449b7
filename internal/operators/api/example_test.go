package api_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/operators/api"
)

func ExampleServer_Handler() {
	access, err := api.NewAccess("", prometheus.NewRegistry(), slog.New(slog.DiscardHandler)) // no token: from this machine only
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &api.Server{
		Access: access, Metrics: http.NotFoundHandler(),
		Status: func() api.Status { return api.Status{Version: "v1", Health: "OK"} },
		Dump:   func(w io.Writer) error { _, err := io.WriteString(w, "api.user: unit=MINUTE"); return err },
	}
	for _, path := range []string{"/", "/rlconfig"} {
		answer := httptest.NewRecorder()
		server.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil)) // from 192.0.2.1
		first, _, _ := strings.Cut(answer.Body.String(), ",")
		fmt.Println(answer.Code, first)
	}
	// Output:
	// 200 version     Weir v1
	// 403 without ADMIN_TOKEN_FILE this is served only to 127.0.0.1 and ::1
}
