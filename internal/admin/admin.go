// Package admin holds what the server shows over HTTP beside its answers:
// health, metrics, and to its operators the status, the rules and profiles.
//
// It is handlers only. It knows no other part of the server, is told
// everything by values and functions, and opens no port.
package admin

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewServer returns a server for handler that no slow client can hold up for
// ever. Its own errors go to logger.
func NewServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // a profile takes as long as it is asked to
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

// Service serves /healthcheck and /json. health returns why the server should
// get no requests, or nil.
func Service(health func() error, json http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthcheck", healthcheck(health))
	mux.Handle("/json", json)
	return mux
}

// healthcheck answers 200 OK, or 500 with the reason.
func healthcheck(health func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := health(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		plain(w)
		fmt.Fprint(w, "OK")
	}
}

// Metrics serves what gatherer holds at path.
func Metrics(path string, gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(path, metrics(gatherer))
	return mux
}

func metrics(gatherer prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{})
}

func plain(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}
