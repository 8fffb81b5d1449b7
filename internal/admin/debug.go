package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"weir/internal/plaintext"
)

// Debug is what operators can see and do. All functions must be set and safe
// for concurrent use.
type Debug struct {
	// Status returns how the server is.
	Status func() Status
	// Rules writes the rules that serve, one per line. It writes nothing if it
	// fails otherwise than by its writer.
	Rules func(io.Writer) error
	// Reload loads the rules anew, or stops waiting for that when its context ends.
	// Its error wraps ErrInvalidRules if they were read but are wrong, and its text
	// is shown whole.
	Reload func(context.Context) error
	// Denials returns what was denied lately, for JSON. It holds values of requests.
	Denials func() any
	// Metrics is what /stats shows.
	Metrics *Metrics
}

// ErrInvalidRules means that rules were read and found wrong.
var ErrInvalidRules = errors.New("invalid rules")

// How much of the debug listener runs at a time. None of it may take the
// processors, or the memory, from requests.
const (
	rulesAtOnce    = 4
	denialsAtOnce  = 2
	profilesAtOnce = 1
	// longestProfile bounds the seconds of a profile, longestTrace those of a trace,
	// which records every switch of a goroutine.
	longestProfile, longestTrace = 60, 10
	// profilePause is how long after a profile the next one may begin: most stop all
	// that the process does for a while.
	profilePause = 5 * time.Second
	// bodyBytes bounds the body of a request.
	bodyBytes = 64 << 10
)

// Handler serves the status page, /rlconfig, /denials, /stats, POST /-/reload and profiles.
func (d Debug) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", d.status)
	mux.Handle("GET /rlconfig", newGate("/rlconfig", rulesAtOnce, placeTime).around(http.HandlerFunc(d.rules)))
	mux.Handle("GET /denials", loopbackOnly(newGate("/denials", denialsAtOnce, placeTime).around(http.HandlerFunc(d.denials))))
	mux.Handle("GET /stats", d.Metrics.Handler())
	mux.HandleFunc("POST /-/reload", d.reload)
	mux.Handle("/debug/pprof/", newGate("/debug/pprof/", profilesAtOnce, 0).around(profiles(profilePause)))
	return http.MaxBytesHandler(mux, bodyBytes)
}

// profiles serves /debug/pprof/.
func profiles(between time.Duration) http.Handler {
	mux, rest := http.NewServeMux(), &pause{between: between}
	mux.HandleFunc("/debug/pprof/{$}", pprof.Index) // the list of profiles
	// Not pprof.Cmdline: flags may hold a password.
	mux.Handle("/debug/pprof/", rest.around(atMost(longestProfile, pprof.Index)))
	mux.Handle("/debug/pprof/profile", rest.around(atMost(longestProfile, pprof.Profile)))
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.Handle("/debug/pprof/trace", rest.around(atMost(longestTrace, pprof.Trace)))
	return mux
}

// pause refuses requests until a while after the last one.
type pause struct {
	between time.Duration
	mu      sync.Mutex
	until   time.Time
}

// around returns next, one at a time, with pauses.
func (p *pause) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if wait := time.Until(p.until); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			http.Error(w, fmt.Sprintf("profiles slow the server down, one may begin %v after the last", p.between), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
		p.until = time.Now().Add(p.between)
	})
}

// atMost refuses a request for more seconds than that, and one that collects garbage
// first, which takes the processors from requests.
func atMost(longest float64, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seconds, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && !(seconds <= longest) {
			http.Error(w, fmt.Sprintf("seconds is too much, allowed are at most %v", longest), http.StatusBadRequest)
			return
		}
		if r.FormValue("gc") != "" {
			http.Error(w, "gc is not allowed: a heap profile is that of the last collection of garbage", http.StatusBadRequest)
			return
		}
		next(w, r)
	})
}

func (d Debug) status(w http.ResponseWriter, _ *http.Request) {
	plain(w)
	fmt.Fprint(w, d.Status())
}

func (d Debug) rules(w http.ResponseWriter, _ *http.Request) {
	plain(w)
	page := &begun{Writer: w}
	if err := d.Rules(page); err != nil && !page.begun { // otherwise the client has gone
		fail(w, err, http.StatusInternalServerError)
	}
}

func (d Debug) denials(w http.ResponseWriter, _ *http.Request) {
	text, err := json.MarshalIndent(d.Denials(), "", "  ")
	if err != nil {
		fail(w, err, http.StatusInternalServerError)
		return
	}
	plain(w)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(plaintext.JSON(text), '\n')) // if it fails, the client has gone
}

// loopbackOnly serves next to this machine only: it shows values of requests.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !peer.Addr().Unmap().IsLoopback() {
			http.Error(w, "this page shows values of requests, and is served to 127.0.0.1 and ::1 only, for example by kubectl port-forward", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// begun notes whether anything was written.
type begun struct {
	io.Writer
	begun bool
}

// Write implements io.Writer.
func (b *begun) Write(p []byte) (int, error) {
	b.begun = true
	return b.Writer.Write(p)
}

func (d Debug) reload(w http.ResponseWriter, r *http.Request) {
	conn := http.NewResponseController(w)
	_ = conn.SetWriteDeadline(time.Time{}) // a load takes what it takes; a recorder in a test has none
	err := d.Reload(r.Context())
	_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
	switch {
	case errors.Is(err, ErrInvalidRules):
		fail(w, err, http.StatusUnprocessableEntity)
	case err != nil:
		fail(w, err, http.StatusInternalServerError)
	default:
		plain(w)
		fmt.Fprintln(w, "rules loaded")
	}
}

// fail answers with an error, which may hold what others wrote.
func fail(w http.ResponseWriter, err error, code int) {
	http.Error(w, plaintext.Lines(err.Error()), code)
}
