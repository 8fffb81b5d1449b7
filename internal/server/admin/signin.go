package admin

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// consolePath is the first page of the console, where a browser is sent after it has signed
// in or out.
const consolePath = "/console/"

// refuser writes the page of a refused sign-in, whose headers are set.
type refuser func(w http.ResponseWriter, r *http.Request, code int, reason string)

// signIn takes the token from a form, and begins a session.
func (a *Access) signIn(refused refuser) http.HandlerFunc {
	if refused == nil {
		refused = func(w http.ResponseWriter, _ *http.Request, code int, reason string) { http.Error(w, reason, code) }
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		session, no := a.begin(r)
		if no != nil {
			no.announce(w)
			refused(w, r, no.code, no.reason)
			return
		}
		a.logger.Info("signed in to the console", "audit", true, "peer", r.RemoteAddr)
		http.SetCookie(w, cookie(r, session, int(sessionTime/time.Second)))
		http.Redirect(w, r, consolePath, http.StatusSeeOther)
	}
}

// begin returns a new session, or why r does not get one.
func (a *Access) begin(r *http.Request) (session string, no *refusal) {
	if a.token == nil {
		return "", &refusal{code: http.StatusNotFound, reason: TokenSetting + " is not set, so nobody can sign in"}
	}
	if a.crossOrigin.Check(r) != nil {
		return "", otherSite
	}
	if err := r.ParseForm(); err != nil {
		return "", &refusal{code: http.StatusBadRequest, reason: "the form cannot be read"}
	}
	text := strings.TrimSpace(r.PostForm.Get("token"))
	if text == "" {
		return "", unauthorized
	}
	if no := a.try(r, text); no != nil {
		return "", no
	}
	session, ok := a.token.begin(text, time.Now())
	if !ok {
		return "", unauthorized
	}
	a.end(r)
	return session, nil
}

// end ends the session of r, if it has one.
func (a *Access) end(r *http.Request) {
	if old, err := r.Cookie(cookieName(r)); err == nil && a.token != nil {
		a.token.end(old.Value)
	}
}

// signOut ends the session.
func (a *Access) signOut(w http.ResponseWriter, r *http.Request) {
	if a.crossOrigin.Check(r) != nil {
		http.Error(w, otherSite.reason, otherSite.code)
		return
	}
	a.end(r)
	http.SetCookie(w, cookie(r, "", -1))
	http.Redirect(w, r, consolePath, http.StatusSeeOther)
}

// SignedIn reports whether r has the cookie of a session.
func (a *Access) SignedIn(r *http.Request) bool {
	if a.token == nil {
		return false
	}
	session, err := r.Cookie(cookieName(r))
	return err == nil && a.token.holds(session.Value, time.Now())
}

// cookieName holds the port, because browsers send a cookie to all ports of a name, and
// kubectl port-forward makes several servers ports of localhost.
func cookieName(r *http.Request) string {
	const name = "weir_session"
	_, port, _ := net.SplitHostPort(r.Host)
	if number, err := strconv.ParseUint(port, 10, 16); err == nil {
		return name + "_" + strconv.FormatUint(number, 10)
	}
	return name
}

// cookie returns that of a session, which only requests of pages of the same site bear,
// and no script can read.
func cookie(r *http.Request, session string, maxAge int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure where the request came by TLS: a port-forward has none
		Name: cookieName(r), Value: session, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}
