package admin

import (
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Access decides who may see values of requests, and who may change anything, on the
// debug port. Without a token it is who comes over loopback. With one it is who sends it
// or has signed in to the console, and over loopback values are shown without it, too.
type Access struct {
	token       *token // nil: none
	failed      prometheus.Counter
	logger      *slog.Logger
	warned      atomic.Pointer[time.Time] // of wrong tokens
	crossOrigin *http.CrossOriginProtection
}

// AccessOptions says what an Access is made of.
type AccessOptions struct {
	TokenFile  string // "": no token
	Registerer prometheus.Registerer
	Logger     *slog.Logger
}

// NewAccess reads the token. Its error names the setting.
func NewAccess(opts AccessOptions) (*Access, error) {
	a := &Access{
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "weir", Name: "admin_failed_logins_total", Help: "Wrong tokens on the debug port, and tokens that came too soon after them.",
		}),
		logger:      opts.Logger,
		crossOrigin: http.NewCrossOriginProtection(),
	}
	opts.Registerer.MustRegister(a.failed)
	if opts.TokenFile == "" {
		return a, nil
	}
	var err error
	a.token, err = newToken(opts.TokenFile, opts.Logger)
	return a, err
}

// Follow reads the file of the token anew when it changes, until ctx ends.
func (a *Access) Follow(ctx context.Context) {
	if a.token != nil {
		a.token.file.Start()
		<-ctx.Done()
		a.token.file.Close()
	}
}

// HasToken reports whether there is a token.
func (a *Access) HasToken() bool { return a.token != nil }

// Problem returns what is wrong with the file of the token, "" if nothing is.
func (a *Access) Problem() string {
	if a.token == nil {
		return ""
	}
	return a.token.file.Problem()
}

// way is how a request was let in.
type way string

const (
	byLoopback way = "loopback"
	bySession  way = "session"
	byToken    way = "token"
)

// wayKey is that of the way in the context of a request that was let in.
type wayKey struct{}

// Values serves next to who may see values of requests.
func (a *Access) Values(next http.Handler) http.Handler { return a.around(next, false) }

// Changes serves next to who may change anything.
func (a *Access) Changes(next http.Handler) http.Handler { return a.around(next, true) }

func (a *Access) around(next http.Handler, changes bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		way, refused := a.admit(r, changes)
		if refused != nil {
			refused.announce(w)
			http.Error(w, refused.reason, refused.code)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), wayKey{}, way)))
	})
}

// refusal is the answer to who may not.
type refusal struct {
	code   int
	reason string
	wait   time.Duration
}

// announce sets the headers of a refusal.
func (no *refusal) announce(w http.ResponseWriter) {
	if no.code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
	}
	if no.wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(no.wait.Seconds()))))
	}
}

var (
	otherSite    = &refusal{code: http.StatusForbidden, reason: "the request was made by a page of another site"}
	unauthorized = &refusal{code: http.StatusUnauthorized, reason: "the token is missing or wrong"} // and no more
	elsewhere    = &refusal{code: http.StatusForbidden, reason: "without " + TokenSetting + " this is served to 127.0.0.1 and ::1 only, and to no proxy, for example by kubectl port-forward"}
	otherName    = &refusal{code: http.StatusForbidden, reason: "without " + TokenSetting + " the name of the server must be an IP address or localhost"}
)

// admit returns how a request is let in, or why it is not.
func (a *Access) admit(r *http.Request, changes bool) (way, *refusal) {
	if a.fromOtherSite(r) {
		return "", otherSite
	}
	refused := notLocal(r)
	if a.token == nil {
		return byLoopback, refused
	}
	if token, sent := bearer(r); sent {
		return byToken, a.try(r, token)
	}
	if a.SignedIn(r) {
		return bySession, nil
	}
	if changes || refused != nil {
		return "", unauthorized
	}
	return byLoopback, nil
}

// fromOtherSite reports whether a browser sent r for a page of another site. A link to the
// console is allowed. It bears no cookie, which is for the same site only.
func (a *Access) fromOtherSite(r *http.Request) bool {
	h := r.Header
	if r.Method == http.MethodGet && r.URL.Path == consolePath && h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document" {
		return false
	}
	strict := *r
	strict.Method = http.MethodPost // what reads only is checked as well: it shows values, or costs much
	return a.crossOrigin.Check(&strict) != nil
}

// notLocal returns nil if r comes over loopback, by no proxy, and names the server by an
// address: a name may be that of a page whose DNS server has turned it to 127.0.0.1.
func notLocal(r *http.Request) *refusal {
	if !overLoopback(r) {
		return elsewhere
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err != nil && !strings.EqualFold(host, "localhost") {
		return otherName
	}
	return nil
}

// overLoopback reports whether both ends of the connection are addresses of loopback, of
// which a proxy that calls itself 127.0.0.6, as Istio's does, has one only. Other proxies
// on this machine say for whom they ask.
func overLoopback(r *http.Request) bool {
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Via"} {
		if len(r.Header[name]) > 0 {
			return false
		}
	}
	own, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(r.RemoteAddr) && isLoopback(own.String())
}

func isLoopback(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// bearer returns the token that r was sent with.
func bearer(r *http.Request) (token string, sent bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// warnEvery is the time between two lines of log about wrong tokens.
const warnEvery = time.Minute

// try returns why a token is refused, nil if it is right.
func (a *Access) try(r *http.Request, text string) *refusal {
	now := time.Now()
	what, wait := a.token.try(host(r.RemoteAddr), text, overLoopback(r), now)
	if what == right {
		return nil
	}
	a.failed.Inc()
	if last := a.warned.Load(); (last == nil || now.Sub(*last) > warnEvery) && a.warned.CompareAndSwap(last, &now) {
		a.logger.Warn("a wrong token on the debug port", "peer", r.RemoteAddr)
	}
	if what == tooSoon {
		return &refusal{http.StatusTooManyRequests, "too many wrong tokens came from this address, the next is looked at after " + wait.Round(time.Millisecond).String(), wait}
	}
	return unauthorized
}

// NeedsSignIn reports whether r gets 401 from Values, and to sign in helps. Who sends a
// token is not asked to.
func (a *Access) NeedsSignIn(r *http.Request) bool {
	if _, sent := bearer(r); sent || a.token == nil {
		return false
	}
	return notLocal(r) != nil && !a.SignedIn(r)
}

// MayChange reports whether Changes would serve r, which Values has let in.
func (a *Access) MayChange(r *http.Request) bool {
	switch r.Context().Value(wayKey{}) {
	case bySession, byToken:
		return true
	case byLoopback:
		return a.token == nil
	}
	return false
}

// Peer returns who sent r, for the audit log: the address, and how it was let in.
func (a *Access) Peer(r *http.Request) string {
	if way, ok := r.Context().Value(wayKey{}).(way); ok {
		return r.RemoteAddr + " by " + string(way)
	}
	return r.RemoteAddr
}
