package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators"
	"weir/internal/settings/follow"
)

// Access decides who may see values of requests, and who may change anything, on the
// debug port. Without a token it is who comes over loopback. With one it is who sends it,
// or has given it to the form of the console; over loopback values are shown without it, too.
type Access struct {
	// Token is what is in the file of the token, nil without one. Who makes an Access starts it.
	Token *follow.Text

	failed prometheus.Counter
	logger *slog.Logger
	warn   rate.Sometimes // of wrong tokens
	sites  *http.CrossOriginProtection

	signedOut sync.Map // cookies, until they expire
}

// NewAccess reads the token in a file, if it is not "". The error names the setting.
func NewAccess(tokenFile string, reg prometheus.Registerer, logger *slog.Logger) (*Access, error) {
	a := &Access{
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "weir", Name: "admin_failed_logins_total", Help: "Requests with invalid token on the debug port.",
		}),
		logger: logger, warn: rate.Sometimes{Interval: time.Minute}, sites: http.NewCrossOriginProtection(),
	}
	a.sites.AddInsecureBypassPattern("/console/{$}") // links may lead there; the cookie is for the same site only
	reg.MustRegister(a.failed)
	if tokenFile == "" {
		return a, nil
	}
	var err error
	a.Token, err = follow.Open(context.Background(), follow.Options{
		Setting: "ADMIN_TOKEN_FILE",
		Read:    func(context.Context) (string, error) { return readToken(tokenFile) },
		Every:   time.Second,
		Logger:  logger,
	})
	return a, err
}

// tokenForm is what a header may hold, and nobody guesses.
var tokenForm = regexp.MustCompile(`^[!-~]{32,}$`)

// readToken returns the token in a file, without white space around it. Its errors hold
// nothing of the token.
func readToken(path string) (string, error) {
	text, err := follow.File(path)
	if err == nil && (len(text) > 1024 || !tokenForm.MatchString(text)) {
		err = fmt.Errorf("%s: the token must be 32 to 1024 visible ASCII characters, such as `openssl rand -hex 32` prints", path)
	}
	return text, err
}

// The answers to who may not.
var (
	otherSite    = operators.Errorf(http.StatusForbidden, "requests of other sites are refused")
	unauthorized = operators.Errorf(http.StatusUnauthorized, "the token is missing or invalid")
	elsewhere    = operators.Errorf(http.StatusForbidden, "without ADMIN_TOKEN_FILE this is served only to 127.0.0.1 and ::1, for example by kubectl port-forward, and not to a proxy or under another name")
)

// Visitor is who sent a request to the debug port.
type Visitor struct {
	Peer            string // its address, and how it was let in, for the audit log
	SignedIn        bool   // it has the cookie of the console
	values, changes error  // nil: it may
}

// MayChange reports whether it may change anything.
func (v Visitor) MayChange() bool { return v.changes == nil }

// visit finds out who sent r.
func (a *Access) visit(r *http.Request) Visitor {
	strict := *r
	strict.Method = http.MethodPost // what reads only is checked as well: it shows values, or costs much
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	cookie, _ := a.cookie(r)
	switch local := isLocal(r); {
	case a.sites.Check(&strict) != nil:
		return Visitor{values: otherSite, changes: otherSite}
	case a.Token == nil && !local:
		return Visitor{values: elsewhere, changes: elsewhere}
	case a.Token == nil:
		return Visitor{Peer: r.RemoteAddr + " by loopback"}
	case strings.EqualFold(scheme, "Bearer") && a.isRight(r, token):
		return Visitor{Peer: r.RemoteAddr + " by token"}
	case strings.EqualFold(scheme, "Bearer"):
		return Visitor{values: unauthorized, changes: unauthorized}
	case cookie != "":
		return Visitor{Peer: r.RemoteAddr + " by cookie", SignedIn: true}
	case local:
		return Visitor{Peer: r.RemoteAddr + " by loopback", changes: unauthorized}
	default:
		return Visitor{values: unauthorized, changes: unauthorized}
	}
}

// visitorKey is that of the Visitor in the context of a request.
type visitorKey struct{}

// VisitorOf returns who sent a request to an endpoint that is not Open.
func VisitorOf(r *http.Request) Visitor { return r.Context().Value(visitorKey{}).(Visitor) }

// guard serves an endpoint to who may use it.
func (a *Access) guard(e Endpoint) http.HandlerFunc {
	if e.Class == Open {
		return e.Handler
	}
	return func(w http.ResponseWriter, r *http.Request) {
		v := a.visit(r)
		r = r.WithContext(context.WithValue(r.Context(), visitorKey{}, v))
		w.Header().Set("Cache-Control", "no-store")
		refused := v.values
		if e.Class == Changes {
			refused = v.changes
		}
		signIn := errors.Is(refused, unauthorized)
		if signIn {
			w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
		}
		switch {
		case refused == nil:
			e.Handler(w, r)
		case signIn && e.SignIn != nil:
			e.SignIn(w, r)
		default:
			fail(w, refused, plaintext.Line)
		}
	}
}

// isLocal reports whether r comes over loopback, by no proxy, and names the server by an
// address: a name may be that of a page whose DNS server has turned it to 127.0.0.1.
func isLocal(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || slices.Contains([]string{"Forwarded", "X-Real-Ip", "Via"}, name) {
			return false // a proxy on this machine sent it
		}
	}
	// Of both ends, a proxy that calls itself 127.0.0.6, as Istio's does, has one only.
	own, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(r.RemoteAddr) || !isLoopback(own.String()) {
		return false
	}
	name := (&url.URL{Host: r.Host}).Hostname()
	_, err := netip.ParseAddr(name)
	return err == nil || strings.EqualFold(name, "localhost")
}

func isLoopback(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// isRight reports whether a token is right, and notes a wrong one.
func (a *Access) isRight(r *http.Request, token string) bool {
	if hmac.Equal([]byte(strings.TrimSpace(token)), []byte(a.Token.Text())) {
		return true
	}
	a.failed.Inc()
	a.warn.Do(func() { a.logger.Warn("invalid token on the debug port", "peer", r.RemoteAddr) })
	return false
}

// cookieLasts is the time from signing in until the cookie expires.
const cookieLasts = 12 * time.Hour

// signed returns the cookie that opens the console as the token does until a time, in
// nanoseconds since the epoch. It does not show the token. All servers with the token accept
// it, because they may be behind one address.
func (a *Access) signed(until string) string {
	mac := hmac.New(sha256.New, []byte(a.Token.Text()))
	_, _ = io.WriteString(mac, "weir console until "+until)
	return until + "-" + hex.EncodeToString(mac.Sum(nil))
}

// cookie returns the cookie of r and how long it lasts, or "" if the cookie is not valid here.
func (a *Access) cookie(r *http.Request) (value string, lasts time.Duration) {
	cookie, err := r.Cookie(cookieName(r))
	if a.Token == nil || err != nil {
		return "", 0
	}
	until, _, _ := strings.Cut(cookie.Value, "-")
	nanoseconds, _ := strconv.ParseInt(until, 10, 64) // signed has written it, or the comparison fails
	lasts = time.Until(time.Unix(0, nanoseconds))
	if _, out := a.signedOut.Load(cookie.Value); out || lasts <= 0 || !hmac.Equal([]byte(cookie.Value), []byte(a.signed(until))) {
		return "", 0
	}
	return cookie.Value, lasts
}

// SignIn gives the browser that sent the token in a form the cookie of the console, and
// reports whether the token is right.
func (a *Access) SignIn(w http.ResponseWriter, r *http.Request) bool {
	if a.Token == nil || !a.isRight(r, r.PostFormValue("token")) {
		return false
	}
	a.logger.Info("signed in to the console", "audit", true, "peer", r.RemoteAddr)
	setCookie(w, r, a.signed(strconv.FormatInt(time.Now().Add(cookieLasts).UnixNano(), 10)), cookieLasts)
	return true
}

// SignOut has the browser forget the cookie, which this server no longer accepts. Others with
// the same token accept it until it expires.
func (a *Access) SignOut(w http.ResponseWriter, r *http.Request) {
	if cookie, lasts := a.cookie(r); cookie != "" {
		a.signedOut.Store(cookie, nil)
		time.AfterFunc(lasts, func() { a.signedOut.Delete(cookie) })
	}
	setCookie(w, r, "", -time.Second)
}

// cookieName holds the port, because browsers send a cookie to all ports of a name, and
// kubectl port-forward makes several servers ports of localhost.
func cookieName(r *http.Request) string {
	return "weir_token_" + (&url.URL{Host: r.Host}).Port()
}

// setCookie sets one that only requests of pages of the same site bear, and no script can
// read.
func setCookie(w http.ResponseWriter, r *http.Request, value string, lasts time.Duration) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure where the request came by TLS: a port-forward has none
		Name: cookieName(r), Value: value, Path: "/", MaxAge: int(lasts.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	})
}
