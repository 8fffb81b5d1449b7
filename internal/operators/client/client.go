// Package client asks a running server what operators want to know, and to do, over HTTP
// on its debug port, and words what it answers: in tables that fit 100 columns where the
// values do, with descriptors that can be pasted into the next command. It follows no
// redirect, which might lead the token elsewhere.
//
//	client.go    Client: one method for each thing to ask
//	ask.go       a request -> its answer, of bounded size and time, or what went wrong
//	words.go     what all the texts share: times, numbers, tables
//	denials.go   the texts of what was denied
//	counters.go  the texts of counters and exceptions
//
// What others wrote is shown through plaintext.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/internal/operators"
	"weir/internal/operators/api"
)

// Options say which server is asked, and how.
type Options struct {
	Server    string         // host:port, http://host:port or https://host:port
	Token     string         // sent with each request, unless it is empty
	CAs       *x509.CertPool // that the certificate of the server must come from; nil: those of the system
	Timeout   time.Duration  // of each request
	UserAgent string
	Flags     string // that commands need which are suggested, such as " --server http://weir:6070"
}

// Client asks one server. It is safe for concurrent use.
type Client struct {
	options Options
	server  string // its URL
	http    *http.Client
}

// New returns a Client. It connects to nothing yet.
func New(o Options) (*Client, error) {
	base, err := parseAddress(o.Server)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // which knows the proxies of the environment
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.CAs}
	transport.DisableKeepAlives = true // a command asks once
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{o, base.String(), &http.Client{Transport: transport, CheckRedirect: noRedirects}}, nil
}

// debugPort is where a server listens unless its settings say otherwise.
const debugPort = "6070"

var errAddress = errors.New("invalid address; use host:port, http://host:port or https://host:port")

// parseAddress reads the address of a server. Its error does not show the address, which
// may hold a password by mistake.
func parseAddress(server string) (*url.URL, error) {
	plain := !strings.Contains(server, "://")
	if plain {
		server = "http://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.HasSuffix(u.Host, ":") || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errAddress
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" && plain {
		port = debugPort
	}
	u.Host = strings.TrimSuffix(net.JoinHostPort(host, port), ":") // a URL needs no port
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// Answer is what a server has answered.
type Answer struct {
	Note   string // that a person should read, "" for none
	NoRule bool   // no rule matches the descriptor
	value  any
	text   func(w io.Writer)
}

// MarshalJSON implements json.Marshaler.
func (a *Answer) MarshalJSON() ([]byte, error) { return json.Marshal(a.value) }

// WriteText writes the answer for people.
func (a *Answer) WriteText(w io.Writer) error {
	a.text(w)
	return nil
}

// Status asks how the server is.
func (c *Client) Status(ctx context.Context) (*Answer, error) {
	s, v, err := ask[api.Status](ctx, c, request{method: http.MethodGet, path: "/status"})
	return &Answer{value: s, text: func(w io.Writer) {
		fmt.Fprintf(w, "server      %s\n%s", text(c.server), s.Text(v.Times))
		if s.Denials > 0 {
			v.suggest(w, "Who is denied", "top")
		} else if s.Exceptions > 0 {
			v.suggest(w, "The exceptions", "except list")
		}
	}}, err
}

// Scope is what of a list is shown.
type Scope struct {
	Domain string // this one alone, or "" for all
	This   bool   // of the server that is asked, and not of all that share its Redis
}

func (s Scope) query() url.Values {
	if s.This {
		return url.Values{"servers": {"this"}}
	}
	return url.Values{"servers": {"all"}}
}

func (s Scope) hides(domain string) bool { return s.Domain != "" && s.Domain != domain }

// Top asks who was denied most in the last hour or minute.
func (c *Client) Top(ctx context.Context, s Scope, minute bool) (*Answer, error) {
	d, v, err := c.denials(ctx, s)
	window := &d.Hour
	if minute {
		window = &d.Minute
	}
	return &Answer{value: d, text: func(w io.Writer) { v.top(w, d, window) }}, err
}

// Denials asks for the last n denials.
func (c *Client) Denials(ctx context.Context, s Scope, n int) (*Answer, error) {
	d, v, err := c.denials(ctx, s)
	d.Last = d.Last[:min(len(d.Last), n)]
	return &Answer{value: d, text: func(w io.Writer) { v.denials(w, d) }}, err
}

func (c *Client) denials(ctx context.Context, s Scope) (*operators.Denials, view, error) {
	d, v, err := ask[operators.Denials](ctx, c, request{method: http.MethodGet, path: "/denials", query: s.query()})
	v.Now = d.At.In(v.Now.Location())
	for _, w := range []*operators.Window{&d.Minute, &d.Hour} {
		w.Limits = slices.DeleteFunc(w.Limits, func(l operators.LimitDenials) bool { return s.hides(l.Domain) })
	}
	d.Last = slices.DeleteFunc(d.Last, func(e operators.LastDenial) bool { return s.hides(e.Domain) })
	return d, v, err
}

// Peek asks for the counters of a descriptor.
func (c *Client) Peek(ctx context.Context, d operators.Descriptor) (*Answer, error) {
	return c.counters(ctx, request{method: http.MethodPost, path: "/peek", body: d})
}

// Reset sets the counters of a descriptor to zero, in the name of by.
func (c *Client) Reset(ctx context.Context, d operators.Descriptor, by string) (*Answer, error) {
	return c.counters(ctx, request{method: http.MethodPost, path: "/reset", query: url.Values{"by": {by}}, body: d})
}

func (c *Client) counters(ctx context.Context, r request) (*Answer, error) {
	counters, v, err := ask[operators.Counters](ctx, c, r)
	text := func(w io.Writer) { v.counters(w, counters, r.path == "/reset") }
	return &Answer{NoRule: counters.Rule == "", value: counters, text: text}, err
}

// Exceptions asks for those in force.
func (c *Client) Exceptions(ctx context.Context, s Scope) (*Answer, error) {
	list, v, err := ask[operators.ExceptionList](ctx, c, request{method: http.MethodGet, path: "/exceptions", query: s.query()})
	list.Exceptions = slices.DeleteFunc(list.Exceptions, func(x operators.Exception) bool {
		domain, _, err := x.Bytes()
		return err != nil && s.Domain != "" || s.hides(domain)
	})
	return &Answer{value: list, text: func(w io.Writer) { v.exceptions(w, list) }}, err
}

// Add adds an exception.
func (c *Client) Add(ctx context.Context, e operators.NewException) (*Answer, error) {
	x, v, err := ask[operators.Exception](ctx, c, request{method: http.MethodPost, path: "/exceptions", body: e})
	return &Answer{Note: x.Note, value: x, text: func(w io.Writer) { v.added(w, x) }}, err
}

// Remove removes an exception, in the name of by. The error is an ErrNotFound if there is none.
func (c *Client) Remove(ctx context.Context, id, by string) (*Answer, error) {
	_, _, err := c.send(ctx, request{method: http.MethodDelete, path: "/exceptions/" + url.PathEscape(id), query: url.Values{"by": {by}}})
	return &Answer{value: map[string]string{"id": id}, text: func(w io.Writer) { removed(w, id) }}, err
}
