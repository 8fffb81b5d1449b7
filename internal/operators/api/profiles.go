package api

import (
	"fmt"
	"math"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"
	"time"
)

const (
	// longestProfile bounds the seconds of a profile, longestTrace those of a trace,
	// which records every switch of a goroutine.
	longestProfile, longestTrace = 60, 10
	// profilePause is how long after a profile the next one may begin: most stop all
	// that the process does for a while.
	profilePause = 5 * time.Second
)

// profiles serves /debug/pprof/.
func profiles(between time.Duration) http.Handler {
	mux, rest := http.NewServeMux(), &pause{between: between}
	mux.HandleFunc("/debug/pprof/{$}", pprof.Index) // the list of profiles
	// Not pprof.Cmdline: flags may hold a password.
	mux.Handle("/debug/pprof/", rest.around(longestProfile, pprof.Index))
	mux.Handle("/debug/pprof/profile", rest.around(longestProfile, pprof.Profile))
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.Handle("/debug/pprof/trace", rest.around(longestTrace, pprof.Trace))
	return mux
}

// pause refuses requests until a while after the last one.
type pause struct {
	between time.Duration
	mu      sync.Mutex
	until   time.Time
}

// around returns next, one at a time, with pauses. It refuses a request for more seconds than
// longest, and one that collects garbage first, which takes the processors from requests.
func (p *pause) around(longest float64, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		free, wait := p.mu.TryLock(), p.between
		if free {
			defer p.mu.Unlock()
			wait = time.Until(p.until)
		}
		if !free || wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			http.Error(w, fmt.Sprintf("profiles slow the server down, wait %v before the next", p.between), http.StatusServiceUnavailable)
			return
		}
		if seconds, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && !(seconds <= longest) {
			http.Error(w, fmt.Sprintf("seconds is too much; use at most %v", longest), http.StatusBadRequest)
		} else if r.FormValue("gc") != "" {
			http.Error(w, "gc is not supported; heap profiles show the state at the last garbage collection", http.StatusBadRequest)
		} else {
			next(w, r)
		}
		p.until = time.Now().Add(p.between)
	})
}
