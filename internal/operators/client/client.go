// Package client asks a running server what operators want to know, and to do, over HTTP
// on its debug port, and words what it answers: in tables that fit 100 columns where the
// values do, with descriptors that can be pasted into the next command. It follows no
// redirect, which might lead the token elsewhere.
//
//	client.go    Client: one method for each thing to ask
//	ask.go       a request -> its answer, of bounded size and time
//	errors.go    what went wrong, in one sentence
//	words.go     View: what all the texts share: times, numbers, tables
//	status.go    the text of how a server is
//	denials.go   the texts of what was denied, whose descriptors may not be whole
//	counters.go  the texts of counters and exceptions
//
// What others wrote is shown through plaintext.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
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
}

// Client asks one server. It is safe for concurrent use.
type Client struct {
	options Options
	base    *url.URL
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
	return &Client{o, base, &http.Client{Transport: transport, CheckRedirect: noRedirects}}, nil
}

// debugPort is where a server listens unless its settings say otherwise.
const debugPort = "6070"

var errAddress = errors.New("it is no address of a server, allowed are host:port, http://host:port and https://host:port")

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

// Server returns the URL of the server.
func (c *Client) Server() string { return c.base.String() }

// Answer is what a server has answered.
type Answer[T any] struct {
	Value T
	JSON  []byte    // the same, as it was sent
	At    time.Time // by the clock of the server, or else by that of this machine
}

// Status asks how the server is.
func (c *Client) Status(ctx context.Context) (Answer[api.Status], error) {
	return ask(ctx, c, request{method: http.MethodGet, path: "/status"}, func(s *api.Status) bool { return s.Version != "" })
}

// Denials asks what was denied lately, by all servers on one Redis or by this one alone.
func (c *Client) Denials(ctx context.Context, all bool) (Answer[operators.Denials], error) {
	return ask(ctx, c, request{method: http.MethodGet, path: "/denials", query: replicas(all)}, func(d *operators.Denials) bool { return !d.At.IsZero() })
}

// Peek asks for the counters of a descriptor.
func (c *Client) Peek(ctx context.Context, d operators.Descriptor) (Answer[operators.Counters], error) {
	return ask(ctx, c, request{method: http.MethodPost, path: "/peek", body: d}, isOf(d))
}

// Reset sets the counters of a descriptor to zero, in the name of by.
func (c *Client) Reset(ctx context.Context, d operators.Descriptor, by string) (Answer[operators.Counters], error) {
	return ask(ctx, c, request{method: http.MethodPost, path: "/reset", query: url.Values{"by": {by}}, body: d}, isOf(d))
}

// isOf returns whether counters are those of a descriptor.
func isOf(d operators.Descriptor) func(*operators.Counters) bool {
	return func(c *operators.Counters) bool { return c.Domain == d.Domain && len(c.Entries) == len(d.Entries) }
}

// Exceptions asks for those in force, with their uses on all servers or on this one alone.
func (c *Client) Exceptions(ctx context.Context, all bool) (Answer[operators.ExceptionList], error) {
	return ask(ctx, c, request{method: http.MethodGet, path: "/exceptions", query: replicas(all)}, func(e *operators.ExceptionList) bool {
		return e.Servers > 0 || e.Exceptions != nil
	})
}

// Add adds an exception.
func (c *Client) Add(ctx context.Context, e operators.NewException) (Answer[operators.Exception], error) {
	return ask(ctx, c, request{method: http.MethodPost, path: "/exceptions", body: e}, func(e *operators.Exception) bool { return e.ID != "" })
}

// Remove ends an exception, in the name of by. The error is an ErrNotFound if there is none.
func (c *Client) Remove(ctx context.Context, id, by string) error {
	_, _, err := c.send(ctx, request{method: http.MethodDelete, path: "/exceptions/" + url.PathEscape(id), query: url.Values{"by": {by}}})
	return err
}

func replicas(all bool) url.Values {
	return url.Values{"replicas": {map[bool]string{true: "all", false: "this"}[all]}}
}
