package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators/api"
)

// Debug is what operators can see and do. Status, Rules, Reload, Metrics and Access must be
// set, and a route whose function is missing is not there. All functions must be safe for
// concurrent use. Errors of those that take a context are of the kinds of adminapi, where
// it has one for them.
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
	// Metrics is what /stats shows.
	Metrics *Metrics
	// Access decides who may use which route.
	Access *Access
	// Logger takes the audit log of what is done here.
	Logger *slog.Logger

	// Denials returns what was denied lately by this server, or by all that share its
	// Redis, for JSON.
	Denials func(ctx context.Context, all bool) (any, error)
	// Peek returns the counters of a descriptor, whose base64 has been checked. Reset sets
	// them to zero, and returns them as they were. by is who a client says it is, and peer
	// where it came from.
	Peek  func(ctx context.Context, d api.Descriptor) (api.Counters, error)
	Reset func(ctx context.Context, d api.Descriptor, by, peer string) (api.Counters, error)
	// Exceptions returns the exceptions in force, with their uses on this server, or on all
	// that share its Redis. The others add one, whose base64 has been checked, and remove one.
	Exceptions      func(ctx context.Context, all bool) (api.Exceptions, error)
	AddException    func(ctx context.Context, e api.NewException, peer string) (api.Exception, error)
	RemoveException func(ctx context.Context, id, by, peer string) error

	// Console serves /console and what is below it, but for signing in and out. It asks
	// Access itself who may see what.
	Console http.Handler
	// SignInRefused writes the page of a refused sign-in, whose headers are set. If it is
	// nil, that is a line of text.
	SignInRefused func(w http.ResponseWriter, r *http.Request, code int, reason string)
}

// ErrInvalidRules means that rules were read and found wrong.
var ErrInvalidRules = errors.New("invalid rules")

// How much of the debug listener runs at a time. None of it may take the
// processors, or the memory, from requests.
const (
	rulesAtOnce   = 4
	denialsAtOnce = 2
	// operationsAtOnce are those that ask for counters and exceptions, or change them.
	operationsAtOnce = 16
	profilesAtOnce   = 1
	// longestProfile bounds the seconds of a profile, longestTrace those of a trace,
	// which records every switch of a goroutine.
	longestProfile, longestTrace = 60, 10
	// profilePause is how long after a profile the next one may begin: most stop all
	// that the process does for a while.
	profilePause = 5 * time.Second
	// bodyBytes bounds the body of a request.
	bodyBytes = 64 << 10
)

// pages are the handlers of a Debug.
type pages struct {
	Debug
	list    string // of the routes, for the status page
	audited audited
}

// status shows how the server is, and what else there is.
func (d *pages) status(w http.ResponseWriter, _ *http.Request) {
	plain(w)
	fmt.Fprint(w, d.Status(), "\n", d.list)
}

func (d *pages) rules(w http.ResponseWriter, _ *http.Request) {
	plain(w)
	page := &begun{Writer: w}
	if err := d.Rules(page); err != nil && !page.begun { // otherwise the client has gone
		fail(w, err, http.StatusInternalServerError)
	}
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

// auditEvery is the time between two lines of log about an address that has the rules
// loaded without end.
const auditEvery = time.Second

// audited are the addresses that had the rules loaded, and when that was last logged.
type audited struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// admit reports whether to log that host has the rules loaded.
func (a *audited) admit(host string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.last, func(_ string, at time.Time) bool { return now.Sub(at) >= auditEvery })
	if _, known := a.last[host]; known {
		return false
	}
	if a.last == nil {
		a.last = map[string]time.Time{}
	}
	a.last[host] = now
	return true
}

// reload loads the rules.
func (d *pages) reload(w http.ResponseWriter, r *http.Request) {
	if d.audited.admit(host(r.RemoteAddr), time.Now()) {
		d.Logger.Info("the rules are loaded on request", "audit", true, "peer", d.Access.Peer(r))
	}
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
