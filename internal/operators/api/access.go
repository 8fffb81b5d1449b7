package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"weir/internal/settings/follow"
)

// tokenSetting is the name of the setting with the path of the token.
const tokenSetting = "ADMIN_TOKEN_FILE"

// Access decides who may see values of requests, and who may change anything, on the
// debug port. Without a token it is who comes over loopback. With one it is who sends it,
// or has given it to the form of the console; over loopback values are shown without it, too.
type Access struct {
	token  *follow.Text // nil: none
	failed prometheus.Counter
	logger *slog.Logger
	warn   rate.Sometimes // of wrong tokens
	sites  *http.CrossOriginProtection
}

// NewAccess reads the token in a file, if it is not "". The error names the setting.
func NewAccess(tokenFile string, reg prometheus.Registerer, logger *slog.Logger) (*Access, error) {
	a := &Access{
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "weir", Name: "admin_failed_logins_total", Help: "Requests with invalid token on the debug port.",
		}),
		logger: logger, warn: rate.Sometimes{Interval: time.Minute}, sites: http.NewCrossOriginProtection(),
	}
	reg.MustRegister(a.failed)
	if tokenFile == "" {
		return a, nil
	}
	var err error
	a.token, err = follow.Open(context.Background(), follow.Options{
		Setting: tokenSetting,
		Read:    func(context.Context) (string, error) { return readToken(tokenFile) },
		Every:   time.Second,
		Logger:  logger,
	})
	return a, err
}

// How long a token may be, in bytes: 32 random bytes have 43 characters in base64 and 64 as
// hexadecimal digits, and nobody guesses them, however often.
const shortestToken, longestToken = 32, 1024

// readToken returns the token in a file, without white space around it. Its errors name
// the file, and hold nothing of the token.
func readToken(path string) (string, error) {
	text, err := follow.File(path)
	if err != nil {
		return "", err
	}
	switch {
	case len(text) < shortestToken:
		return "", fmt.Errorf("%s: the token has %d bytes; use at least %d, such as `openssl rand -hex 32` prints", path, len(text), shortestToken)
	case len(text) > longestToken:
		return "", fmt.Errorf("%s: the token has %d bytes; use at most %d", path, len(text), longestToken)
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' { // what a header may hold, and no space
			return "", fmt.Errorf("%s: byte %d of the token is not a printable ASCII character", path, i+1)
		}
	}
	return text, nil
}

// Follow reads the file of the token anew when it changes, until ctx ends.
func (a *Access) Follow(ctx context.Context) {
	if a.token != nil {
		a.token.Start()
		<-ctx.Done()
		a.token.Close()
	}
}

// Problem returns what is wrong with the file of the token, "" if nothing is.
func (a *Access) Problem() string {
	if a.token == nil {
		return ""
	}
	return a.token.Problem()
}

// refusal is the answer to who may not.
type refusal struct {
	code   int
	reason string
}

var (
	otherSite    = &refusal{http.StatusForbidden, "requests of other sites are refused"}
	unauthorized = &refusal{http.StatusUnauthorized, "the token is missing or invalid"} // and no more
	elsewhere    = &refusal{http.StatusForbidden, "without " + tokenSetting + " this is served only to 127.0.0.1 and ::1, for example by kubectl port-forward, and not to a proxy"}
	otherName    = &refusal{http.StatusForbidden, "without " + tokenSetting + " the name of the server must be an IP address or localhost"}
)

// challenge is the header WWW-Authenticate of an answer to who has no right token.
const challenge = `Bearer realm="weir"`

// Visitor is who sent a request to the debug port.
type Visitor struct {
	// Peer is the address, and how it was let in, for the audit log.
	Peer string
	// SignedIn reports whether it has the cookie of the console.
	SignedIn bool

	sentToken       bool
	values, changes *refusal // nil: it may
}

// MayChange reports whether it may change anything.
func (v Visitor) MayChange() bool { return v.changes == nil }

// NeedsToSignIn reports whether it may see nothing until it signs in. Who sends a token is
// not asked to.
func (v Visitor) NeedsToSignIn() bool { return v.values == unauthorized && !v.sentToken }

// visit finds out who sent r.
func (a *Access) visit(r *http.Request) Visitor {
	by := func(way string) string { return r.RemoteAddr + " by " + way }
	local := notLocal(r)
	token, sent := bearer(r)
	switch {
	case a.fromOtherSite(r):
		return Visitor{values: otherSite, changes: otherSite, sentToken: sent}
	case a.token == nil:
		return Visitor{Peer: by("loopback"), values: local, changes: local, sentToken: sent}
	case sent && a.right(r, token):
		return Visitor{Peer: by("token")}
	case sent:
		return Visitor{values: unauthorized, changes: unauthorized, sentToken: true}
	case a.hasCookie(r):
		return Visitor{Peer: by("cookie"), SignedIn: true}
	case local == nil:
		return Visitor{Peer: by("loopback"), changes: unauthorized}
	default:
		return Visitor{values: unauthorized, changes: unauthorized}
	}
}

// visitorKey is that of the Visitor in the context of a request.
type visitorKey struct{}

// VisitorOf returns who sent a request to a page of the console.
func VisitorOf(r *http.Request) Visitor {
	if v, ok := r.Context().Value(visitorKey{}).(Visitor); ok {
		return v
	}
	return Visitor{values: unauthorized, changes: unauthorized}
}

// class says who may use a route.
type class int

const (
	open    class = iota // everybody who reaches the port
	values               // it shows values of requests, or costs much
	changes              // it changes something
	own                  // its handler asks VisitorOf
)

// guard serves next to who may use an endpoint of a class.
func (a *Access) guard(c class, next http.Handler) http.Handler {
	switch c {
	case open:
		return next
	case values:
		next = Values(next.ServeHTTP)
	case changes:
		next = Changes(next.ServeHTTP)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitorKey{}, a.visit(r))))
	})
}

// Values serves next to who may see values of requests.
func Values(next http.HandlerFunc) http.HandlerFunc {
	return allowed(next, func(v Visitor) *refusal { return v.values })
}

// Changes serves next to who may change anything.
func Changes(next http.HandlerFunc) http.HandlerFunc {
	return allowed(next, func(v Visitor) *refusal { return v.changes })
}

func allowed(next http.HandlerFunc, refused func(Visitor) *refusal) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if no := refused(VisitorOf(r)); no != nil {
			if no == unauthorized {
				w.Header().Set("WWW-Authenticate", challenge)
			}
			http.Error(w, no.reason, no.code)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		next(w, r)
	}
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
	return a.sites.Check(&strict) != nil
}

// notLocal returns nil if r comes over loopback, by no proxy, and names the server by an
// address: a name may be that of a page whose DNS server has turned it to 127.0.0.1.
func notLocal(r *http.Request) *refusal {
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Via"} {
		if len(r.Header[name]) > 0 { // a proxy on this machine
			return elsewhere
		}
	}
	// Of both ends, a proxy that calls itself 127.0.0.6, as Istio's does, has one only.
	own, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(r.RemoteAddr) || !isLoopback(own.String()) {
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

func isLoopback(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// bearer returns the token that r was sent with.
func bearer(r *http.Request) (token string, sent bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// right reports whether a token is right, and notes a wrong one.
func (a *Access) right(r *http.Request, token string) bool {
	if same(token, a.token.Text()) {
		return true
	}
	a.failed.Inc()
	a.warn.Do(func() { a.logger.Warn("invalid token on the debug port", "peer", r.RemoteAddr) })
	return false
}

// same compares digests, in a time that says nothing of the texts.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

const (
	// consolePath is the first page of the console.
	consolePath = "/console/"
	// cookieTime is how long a browser keeps the cookie.
	cookieTime = 12 * time.Hour
)

// SignIn gives the browser that sent the token in a form the cookie of the console, or
// returns why not, with the status of the answer.
func (a *Access) SignIn(w http.ResponseWriter, r *http.Request) (code int, reason string) {
	if a.token == nil {
		return http.StatusNotFound, tokenSetting + " is not set, so nobody can sign in"
	}
	if a.sites.Check(r) != nil {
		return otherSite.code, otherSite.reason
	}
	if err := r.ParseForm(); err != nil {
		return http.StatusBadRequest, "the form cannot be read"
	}
	if token := strings.TrimSpace(r.PostForm.Get("token")); token == "" || !a.right(r, token) {
		w.Header().Set("WWW-Authenticate", challenge)
		return unauthorized.code, unauthorized.reason
	}
	a.logger.Info("signed in to the console", "audit", true, "peer", r.RemoteAddr)
	http.SetCookie(w, cookie(r, cookieOf(a.token.Text()), int(cookieTime/time.Second)))
	return 0, ""
}

// SignOut has the browser forget the cookie. It returns why not, if it does not.
func (a *Access) SignOut(w http.ResponseWriter, r *http.Request) (code int, reason string) {
	if a.sites.Check(r) != nil {
		return otherSite.code, otherSite.reason
	}
	http.SetCookie(w, cookie(r, "", -1))
	return 0, ""
}

// hasCookie reports whether r bears the cookie for the token of now.
func (a *Access) hasCookie(r *http.Request) bool {
	c, err := r.Cookie(cookieName(r))
	return err == nil && same(c.Value, cookieOf(a.token.Text()))
}

// cookieOf returns what stands for a token in a cookie, which may not hold all characters of
// a token. It opens the console as the token does, but does not show it.
func cookieOf(token string) string {
	sum := sha256.Sum256([]byte("weir console " + token))
	return hex.EncodeToString(sum[:])
}

// cookieName holds the port, because browsers send a cookie to all ports of a name, and
// kubectl port-forward makes several servers ports of localhost.
func cookieName(r *http.Request) string {
	const name = "weir_token"
	_, port, _ := net.SplitHostPort(r.Host)
	if number, err := strconv.ParseUint(port, 10, 16); err == nil {
		return name + "_" + strconv.FormatUint(number, 10)
	}
	return name
}

// cookie returns one that only requests of pages of the same site bear, and no script can
// read.
func cookie(r *http.Request, value string, maxAge int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure where the request came by TLS: a port-forward has none
		Name: cookieName(r), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}
