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
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators"
	"weir/internal/settings/follow"
)

// Access decides who may see values of requests and who may make changes on the debug port. Without a
// token, loopback connections may do both. With a token, a request needs the token or the console's
// cookie, but a loopback connection may see values with neither.
type Access struct {
	// Token follows the token file, or is nil if there is none. The caller of NewAccess must run it.
	Token *follow.Text

	failed prometheus.Counter
	logger *slog.Logger
	warn   rate.Sometimes // limits the log of invalid tokens
	sites  *http.CrossOriginProtection

	signedOut sync.Map // cookies that are no longer accepted, until they expire
}

// NewAccess returns an Access with the token in tokenFile, or without one if tokenFile is empty. It
// fails if the file has no valid token; the error names the setting.
func NewAccess(tokenFile string, reg prometheus.Registerer, logger *slog.Logger) (*Access, error) {
	a := &Access{
		failed: promauto.With(reg).NewCounter(prometheus.CounterOpts{
			Namespace: "weir", Name: "admin_failed_logins_total", Help: "Requests with invalid token on the debug port.",
		}),
		logger: logger, warn: rate.Sometimes{Interval: time.Minute}, sites: http.NewCrossOriginProtection(),
	}
	a.sites.AddInsecureBypassPattern("/console/{$}") // other sites may link to this page; requests from such links have no cookie
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

// tokenForm matches tokens that are valid in a header and too long to guess.
var tokenForm = regexp.MustCompile(`^[!-~]{32,}$`)

// readToken returns the trimmed token in a file. Its errors do not contain the token.
func readToken(path string) (string, error) {
	text, err := follow.File(path)
	if err == nil && (len(text) > 1024 || !tokenForm.MatchString(text)) {
		err = fmt.Errorf("%s: the token must be 32 to 1024 visible ASCII characters, such as `openssl rand -hex 32` prints", path)
	}
	return text, err
}

// Reasons for refusing a request.
var (
	otherSite    = operators.Errorf(http.StatusForbidden, "requests of other sites are refused")
	unauthorized = operators.Errorf(http.StatusUnauthorized, "the token is missing or invalid")
	elsewhere    = operators.Errorf(http.StatusForbidden, "without ADMIN_TOKEN_FILE this is served only to 127.0.0.1 and ::1, for example by kubectl port-forward, and not to a proxy or under another name")
)

// Visitor is the sender of a request to the debug port.
type Visitor struct {
	Peer            string // address and kind of access, for the audit log
	SignedIn        bool   // by the cookie of the console
	values, changes error  // why the visitor must not see values or make changes; nil if it may
}

// MayChange reports whether v may make changes.
func (v Visitor) MayChange() bool { return v.changes == nil }

// visit returns the sender of r, and counts an invalid token.
func (a *Access) visit(r *http.Request) Visitor {
	strict := *r
	strict.Method = http.MethodPost // so that Check also checks GET, which may show values or be expensive
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	bearer, local := strings.EqualFold(scheme, "Bearer"), isLocal(r)
	switch {
	case a.sites.Check(&strict) != nil:
		return Visitor{values: otherSite, changes: otherSite}
	case a.Token == nil && !local:
		return Visitor{values: elsewhere, changes: elsewhere}
	case a.Token == nil:
		return Visitor{Peer: r.RemoteAddr + " by loopback"}
	case bearer && a.isRight(r, token):
		return Visitor{Peer: r.RemoteAddr + " by token"}
	case !bearer && a.cookie(r) != "":
		return Visitor{Peer: r.RemoteAddr + " by cookie", SignedIn: true}
	case !bearer && local:
		return Visitor{Peer: r.RemoteAddr + " by loopback", changes: unauthorized}
	default:
		return Visitor{values: unauthorized, changes: unauthorized}
	}
}

// visitorKey is the key of the Visitor in a request's context.
type visitorKey struct{}

// VisitorOf returns the sender of a request. It panics in the handler of an Open endpoint.
func VisitorOf(r *http.Request) Visitor { return r.Context().Value(visitorKey{}).(Visitor) }

// guard returns the handler of e behind a check that the sender may use e.
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

// isLocal reports whether r comes over loopback, not through a proxy, and its host is an IP address or
// localhost. Any other host may belong to a web page whose DNS resolves the host to 127.0.0.1.
func isLocal(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || slices.Contains([]string{"Forwarded", "X-Real-Ip", "Via"}, name) {
			return false // a local proxy added the header
		}
	}
	// Istio's proxy connects from 127.0.0.6, but to an address that is not loopback.
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

// isRight reports whether a token is valid. It counts and logs an invalid token.
func (a *Access) isRight(r *http.Request, token string) bool {
	if hmac.Equal([]byte(strings.TrimSpace(token)), []byte(a.Token.Text())) {
		return true
	}
	a.failed.Inc()
	a.warn.Do(func() { a.logger.Warn("invalid token on the debug port", "peer", r.RemoteAddr) })
	return false
}

// signed returns the value of a console cookie that expires at the time given by until, in nanoseconds since
// the epoch. The cookie does not reveal the token. All servers with the same token accept the cookie, because
// the servers may share one address.
func (a *Access) signed(until string) string {
	mac := hmac.New(sha256.New, []byte(a.Token.Text()))
	_, _ = io.WriteString(mac, "weir console until "+until)
	return until + "-" + hex.EncodeToString(mac.Sum(nil))
}

// cookieLasts is the lifetime of a cookie.
const cookieLasts = 12 * time.Hour

// cookie returns the value of r's cookie, or "" if r has no valid cookie.
func (a *Access) cookie(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if a.Token == nil || err != nil {
		return ""
	}
	until, _, _ := strings.Cut(cookie.Value, "-")
	nanoseconds, _ := strconv.ParseInt(until, 10, 64) // without a number, the cookie has expired
	if _, out := a.signedOut.Load(cookie.Value); out || time.Now().UnixNano() >= nanoseconds || !hmac.Equal([]byte(cookie.Value), []byte(a.signed(until))) {
		return ""
	}
	return cookie.Value
}

// SignIn sets the console's cookie and returns true if the form of r has the valid token.
func (a *Access) SignIn(w http.ResponseWriter, r *http.Request) bool {
	if a.Token == nil || !a.isRight(r, r.PostFormValue("token")) {
		return false
	}
	a.logger.Info("signed in to the console", "audit", true, "peer", r.RemoteAddr)
	setCookie(w, r, a.signed(strconv.FormatInt(time.Now().Add(cookieLasts).UnixNano(), 10)), cookieLasts)
	return true
}

// SignOut deletes the cookie in the browser. This server no longer accepts the cookie; other servers
// with the same token accept the cookie until it expires.
func (a *Access) SignOut(w http.ResponseWriter, r *http.Request) {
	if cookie := a.cookie(r); cookie != "" {
		a.signedOut.Store(cookie, nil)
		time.AfterFunc(cookieLasts, func() { a.signedOut.Delete(cookie) })
	}
	setCookie(w, r, "", -time.Second)
}

// cookieName returns the name of r's cookie. The name has the port, because browsers send a cookie to all
// ports of a host, and with kubectl port-forward, several servers may be at different ports of localhost.
func cookieName(r *http.Request) string {
	return "weir_token_" + (&url.URL{Host: r.Host}).Port()
}

// setCookie sets a cookie that scripts cannot read and that requests from other sites do not carry.
func setCookie(w http.ResponseWriter, r *http.Request, value string, lasts time.Duration) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // not always Secure, because a port-forward has no TLS
		Name: cookieName(r), Value: value, Path: "/", MaxAge: int(lasts.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	})
}
