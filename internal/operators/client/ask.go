package client

import (
	"bytes"
	"cmp"
	"context"
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

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators"
)

// What callers may want to say more about. Each error is one sentence that names the server.
var (
	ErrUnreachable  = errors.New("cannot reach the server")
	ErrUnauthorized = errors.New("the server requires another token")
	ErrNotFound     = errors.New("not found")
)

// failure is an error with a text of its own, that is one of those above.
type failure struct {
	error
	kind error
}

// Is implements errors.Is.
func (f failure) Is(kind error) bool { return f.kind == kind }

// maxAnswer bounds an answer. 10,000 exceptions with long reasons are a few megabytes.
const maxAnswer = 64 << 20

// request is what is sent to a server.
type request struct {
	method, path string
	query        url.Values
	body         any // sent as JSON, unless it is nil
}

// ask sends a request and reads its answer, which is never nil, and from where it is seen.
func ask[T any](ctx context.Context, c *Client, r request) (*T, view, error) {
	answer, v := new(T), view{operators.Times{Now: time.Now()}, c.options.Flags}
	text, header, err := c.send(ctx, r)
	if err != nil {
		return answer, v, err
	}
	if err := json.Unmarshal(text, answer); err != nil || reflect.ValueOf(answer).Elem().IsZero() {
		return answer, v, fmt.Errorf("%s is not the debug port of a Weir server: it does not answer %s as Weir does", c.server, r.path)
	}
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		v.Now = at.Local()
	}
	return answer, v, nil
}

// send sends a request and returns the body and the header of an answer that is a success.
func (c *Client) send(ctx context.Context, r request) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, nil, err
		}
		body = bytes.NewReader(text)
	}
	target := c.server + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	question, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, nil, err
	}
	question.Header.Set("Accept", "application/json")
	question.Header.Set("User-Agent", cmp.Or(c.options.UserAgent, "weir"))
	if body != nil {
		question.Header.Set("Content-Type", "application/json")
	}
	if c.options.Token != "" {
		question.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	response, err := c.http.Do(question)
	if err != nil {
		return nil, nil, c.unreachable(ctx, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, c.unreachable(ctx, err)
	case len(text) > maxAnswer:
		return nil, nil, fmt.Errorf("the answer of %s to %s exceeds %d MiB", c.server, r.path, maxAnswer>>20)
	case response.StatusCode/100 != 2:
		return nil, nil, c.refused(r, response, text)
	}
	return text, response.Header, nil
}

// unreachable words an error of the connection, without what surrounds it in err.
func (c *Client) unreachable(ctx context.Context, err error) error {
	var timeout net.Error
	kind := ErrUnreachable
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		err = fmt.Errorf("no answer within %v", c.options.Timeout)
	case ctx.Err() != nil:
		err, kind = errors.New("interrupted"), context.Canceled
	default:
		for next := err; next != nil; next = errors.Unwrap(next) {
			err = next
		}
	}
	return failure{fmt.Errorf("cannot reach the server at %s: %s", c.server, line(err.Error())), kind}
}

// refused words an answer that is no success.
func (c *Client) refused(r request, response *http.Response, body []byte) error {
	reason, code := line(string(body)), response.StatusCode
	// A server that knows the path gives another reason than Go's net/http.
	unknown := reason == "404 page not found" || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain")
	answer, kind := fmt.Sprintf("refused this (%d): %s", code, reason), error(nil)
	switch {
	case code/100 == 3:
		answer = fmt.Sprintf("redirects to %s; weir does not follow redirects", line(response.Header.Get("Location")))
	case code == http.StatusNotFound && unknown, code == http.StatusMethodNotAllowed:
		answer = fmt.Sprintf("has no %s: it is older than this program, or it is not Weir", r.path)
	case code == http.StatusNotFound:
		answer, kind = "answered: "+reason, ErrNotFound
	case code == http.StatusUnauthorized:
		answer, kind = "refused this: "+reason, ErrUnauthorized
	case code >= http.StatusInternalServerError: // such as 503, if Redis fails
		answer = fmt.Sprintf("failed (%d): %s", code, reason)
	}
	return failure{fmt.Errorf("the server at %s %s", c.server, answer), kind}
}

// maxReason bounds what is shown of the reason of a server.
const maxReason = 500

// line returns the first line of what a server says, to be shown.
func line(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if first == "" {
		return "no reason given"
	}
	return plaintext.Line(operators.Begin(strings.TrimSpace(first), maxReason))
}
