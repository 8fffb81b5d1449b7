package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
)

// Debug is what operators can see and do. All functions must be set and safe
// for concurrent use.
type Debug struct {
	// Status tells how the server is.
	Status func() Status
	// Rules writes the rules that serve, one per line.
	Rules func(io.Writer) error
	// Reload loads the rules anew. Its error wraps ErrInvalidRules if they were
	// read but are wrong, and its text is shown whole.
	Reload func() error
	// Metrics holds what /stats shows.
	Metrics prometheus.Gatherer
}

// ErrInvalidRules tells that rules were read and found wrong.
var ErrInvalidRules = errors.New("invalid rules")

// Handler serves the status page, /rlconfig, /stats, POST /-/reload and profiles.
func (d Debug) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", d.status)
	mux.HandleFunc("GET /rlconfig", d.rules)
	mux.Handle("GET /stats", metrics(d.Metrics))
	mux.HandleFunc("POST /-/reload", d.reload)
	// Not pprof.Cmdline: flags may hold a password.
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

func (d Debug) status(w http.ResponseWriter, _ *http.Request) {
	plain(w)
	fmt.Fprint(w, d.Status())
}

func (d Debug) rules(w http.ResponseWriter, _ *http.Request) {
	var page bytes.Buffer
	if err := d.Rules(&page); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	plain(w)
	_, _ = page.WriteTo(w) // the client has gone if this fails
}

func (d Debug) reload(w http.ResponseWriter, _ *http.Request) {
	switch err := d.Reload(); {
	case errors.Is(err, ErrInvalidRules):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		plain(w)
		fmt.Fprintln(w, "rules loaded")
	}
}
