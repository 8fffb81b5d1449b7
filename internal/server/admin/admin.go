// Package admin holds what the server shows over HTTP beside its answers:
// health, metrics, and to its operators the status, the rules and profiles.
//
// It is handlers only. It knows no other part of the server, takes
// everything by values and functions, and opens no port.
package admin

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// How much a server takes.
const (
	// writeTime is what a client has to read an answer. Profiles take what they
	// are asked to on top.
	writeTime = 30 * time.Second
	// headerBytes bounds a request's first line and headers.
	headerBytes = 16 << 10
	// placeTime is for how long a reader of a page may keep its place while others
	// want it. A server that is loaded takes a second to collect its metrics.
	placeTime = 5 * time.Second
)

// NewServer returns a server for handler that no slow client can hold up for
// ever, and that keeps so many connections at most, see connections. Its own
// errors go to logger.
func NewServer(handler http.Handler, maxConnections int, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      writeTime,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    headerBytes,
		ConnState:         newConnections(maxConnections).changed,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

// Bodies that may be large are read by so many requests at a time. Others are
// small enough for every connection to have one.
const (
	smallBody   = 16 << 10
	largeBodies = 64
)

// Service serves /healthcheck and /json. health returns why the server should
// get no requests, or nil.
func Service(health func() error, json http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthcheck", healthcheck(health))
	mux.Handle("/json", boundBodies(json))
	return mux
}

// boundBodies bounds the memory of bodies that are sent slowly.
func boundBodies(next http.Handler) http.Handler {
	large := newGate("large bodies", largeBodies, placeTime).around(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if 0 <= r.ContentLength && r.ContentLength <= smallBody {
			next.ServeHTTP(w, r)
		} else {
			large.ServeHTTP(w, r)
		}
	})
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

func plain(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}
