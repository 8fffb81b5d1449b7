// Package client sends questions and orders of operators to the debug port of a running server,
// and formats the answers as tables. A line has up to 100 characters unless values are long, and
// descriptors can be pasted into the next command. The client follows no redirects, which might
// send the token to another server. Text from elsewhere is escaped by package plaintext.
//
//	questions.go  Question: the flags of a command, and its request
//	client.go     Client: requests and errors
//	words.go      Answer, and the functions for its texts
//	answers.txt   the texts
package client

import (
	"bytes"
	"cmp"
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
	"reflect"
	"strings"
	"time"

	"weir/internal/operators/api"
)

// Options are the options of a Client.
type Options struct {
	Server    string         // host:port, http://host:port or https://host:port
	Token     string         // sent with each request unless it is empty
	CAs       *x509.CertPool // trusted authorities, or nil for the system's
	Timeout   time.Duration  // of each request, except for CSV
	UserAgent string
	Flags     string // added to suggested commands, such as " --server http://weir:6070"

	Progress io.Writer // receives the progress of a file that is sent; nil disables it
}

// Client sends questions to one server. It is safe for concurrent use.
type Client struct {
	options Options
	server  string // URL of the server
	http    *http.Client
}

// New returns a Client, which connects only when it is used. It fails if the address is invalid.
func New(o Options) (*Client, error) {
	base, err := parseAddress(o.Server)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // with the proxies of the environment
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.CAs}
	transport.DisableKeepAlives = true // a command sends one request
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{o, base, &http.Client{Transport: transport, CheckRedirect: noRedirects, Timeout: o.Timeout}}, nil
}

// parseAddress returns the URL of a server. Its error does not show the address, which may contain
// a password by mistake.
func parseAddress(server string) (string, error) {
	plain := !strings.Contains(server, "://")
	if plain {
		server = "http://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.HasSuffix(u.Host, ":") || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", errors.New("invalid address; use host:port, http://host:port or https://host:port")
	}
	host, port := cmp.Or(u.Hostname(), "127.0.0.1"), u.Port()
	if port == "" && plain {
		port = "6070" // the default port of servers
	}
	host = strings.TrimSuffix(net.JoinHostPort(host, port), ":") // a URL needs no port
	return (&url.URL{Scheme: u.Scheme, Host: host, Path: strings.TrimRight(u.Path, "/")}).String(), nil
}

// Kinds of errors to which callers may add advice.
var (
	ErrUnreachable  = errors.New("cannot reach the server")
	ErrUnauthorized = errors.New("refused by the server")
	ErrNotFound     = errors.New("not found by the server")
	ErrUnavailable  = errors.New("status 503 from the server") // Redis fails, or no rules are loaded
)

// ask sends a request and decodes the answer. The parameter text names the template for the Answer. Neither
// pointer is nil, even if there is an error.
func ask[T any](ctx context.Context, c *Client, text, method, path string, body any) (*T, *Answer, error) {
	value := new(T)
	a := &Answer{text: text, Value: value, Server: c.server, Flags: c.options.Flags}
	got, date, err := c.send(ctx, method, path, body)
	if err == nil && (json.Unmarshal(got, value) != nil || reflect.ValueOf(value).Elem().IsZero()) {
		path, _, _ = strings.Cut(path, "?")
		err = fmt.Errorf("%s is not the debug port of a Weir server: it does not answer %s as Weir does", c.server, path)
	}
	a.Now = time.Now()
	if at, err := http.ParseTime(date); err == nil {
		a.Now = at.Local()
	}
	return value, a, err
}

// maxAnswer is the maximum size of an answer. 10,000 exceptions take a few megabytes.
const maxAnswer = 64 << 20

// send sends a request, and returns the body and the date of a successful answer. If body is an io.Reader,
// it is sent as CSV, otherwise as JSON; nil means no body. Each error is one sentence that names the server.
func (c *Client) send(ctx context.Context, method, path string, body any) (text []byte, date string, err error) {
	client, kind, stream := *c.http, "application/json", io.Reader(nil)
	switch body := body.(type) {
	case nil:
	case io.Reader: // CSV of any length
		client.Timeout, kind, stream = 0, "text/csv", body
	default:
		if text, err = json.Marshal(body); err != nil {
			return nil, "", err
		}
		stream = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, stream)
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("User-Agent", cmp.Or(c.options.UserAgent, "weir"))
	if c.options.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	response, err := client.Do(request)
	if err == nil {
		defer response.Body.Close()
		text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	}
	if err != nil {
		return nil, "", c.unreachable(ctx, err)
	}
	failed := fmt.Errorf("status %d from the server", response.StatusCode)
	switch response.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		return text, response.Header.Get("Date"), nil
	case http.StatusUnauthorized:
		failed = ErrUnauthorized
	case http.StatusNotFound:
		failed = ErrNotFound
	case http.StatusServiceUnavailable:
		failed = ErrUnavailable
	}
	return nil, "", c.failure(failed, string(text))
}

// unreachable returns a connection error as one sentence with its innermost cause.
func (c *Client) unreachable(ctx context.Context, err error) error {
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return c.failure(context.Canceled, "interrupted")
	case errors.As(err, &timeout) && timeout.Timeout():
		return c.failure(ErrUnreachable, fmt.Sprintf("no answer within %v", c.options.Timeout))
	}
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return c.failure(ErrUnreachable, err.Error())
}

// failure returns an error that wraps kind, with the first line of reason, made safe to print.
func (c *Client) failure(kind error, reason string) error {
	reason, _, _ = strings.Cut(strings.TrimSpace(reason), "\n")
	return fmt.Errorf("%w at %s: %s", kind, c.server, api.Short(cmp.Or(reason, "no reason given"), 500))
}
