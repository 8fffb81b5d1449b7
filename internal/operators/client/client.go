// Package client asks a running server what operators want to know, and to do, over HTTP
// on its debug port, and words what it answers: in tables that fit 100 columns where the
// values do, with descriptors that can be pasted into the next command. It follows no
// redirect, which might lead the token elsewhere.
//
//	questions.go  what can be asked, each as the flags of a command
//	client.go     Client: how it is asked
//	words.go      Answer, and the functions of its texts
//	answers.txt   the texts
//
// What others wrote is shown through plaintext.
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
	return &Client{o, base, &http.Client{Transport: transport, CheckRedirect: noRedirects, Timeout: o.Timeout}}, nil
}

// parseAddress returns the URL of a server. Its error does not show the address, which may
// hold a password by mistake.
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
		port = "6070" // where a server listens unless its settings say otherwise
	}
	host = strings.TrimSuffix(net.JoinHostPort(host, port), ":") // a URL needs no port
	return (&url.URL{Scheme: u.Scheme, Host: host, Path: strings.TrimRight(u.Path, "/")}).String(), nil
}

// What callers may want to say more about.
var (
	ErrUnreachable  = errors.New("cannot reach the server")
	ErrUnauthorized = errors.New("refused by the server")
	ErrNotFound     = errors.New("not found by the server")
)

// ask sends a request and reads its answer, which is never nil, and is shown as text says.
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

// maxAnswer bounds an answer. 10,000 exceptions with long reasons are a few megabytes.
const maxAnswer = 64 << 20

// send sends a request with a body in JSON, if it is not nil, and returns the body and the date
// of an answer that is a success. Each error is one sentence that names the server.
func (c *Client) send(ctx context.Context, method, path string, body any) (text []byte, date string, err error) {
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return nil, "", err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(text))
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", cmp.Or(c.options.UserAgent, "weir"))
	if c.options.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	response, err := c.http.Do(request)
	if err == nil {
		defer response.Body.Close()
		text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	}
	if err != nil {
		return nil, "", c.unreachable(ctx, err)
	}
	kind := fmt.Errorf("status %d from the server", response.StatusCode)
	switch response.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		return text, response.Header.Get("Date"), nil
	case http.StatusUnauthorized:
		kind = ErrUnauthorized
	case http.StatusNotFound:
		kind = ErrNotFound
	}
	return nil, "", c.failure(kind, string(text))
}

// unreachable words an error of the connection, without what surrounds it in err.
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

// failure is an error of a kind, with the first line of a reason that others may have written.
func (c *Client) failure(kind error, reason string) error {
	reason, _, _ = strings.Cut(strings.TrimSpace(reason), "\n")
	return fmt.Errorf("%w at %s: %s", kind, c.server, api.Short(cmp.Or(reason, "no reason given"), 500))
}
