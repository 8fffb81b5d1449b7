package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"weir/internal/descriptors/plaintext"

	"weir/internal/operators"
)

// What callers may want to say more about. Each error is one sentence that names the server.
var (
	ErrUnreachable  = errors.New("no server answers")
	ErrUnauthorized = errors.New("the server wants another token, or one at all")
	ErrNotFound     = errors.New("the server knows no such thing")
)

// failure is an error with a text of its own.
type failure struct {
	text string
	kind error
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// Unwrap returns one of the errors above, or nil.
func (f *failure) Unwrap() error { return f.kind }

func (c *Client) errorf(format string, args ...any) error {
	return &failure{fmt.Sprintf(format, args...), nil}
}

// unreachable words an error of the connection, without what surrounds it in err.
func (c *Client) unreachable(ctx context.Context, err error) error {
	var syscallError *os.SyscallError
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var timeout net.Error
	var why string
	kind := ErrUnreachable
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		why = fmt.Sprintf("it takes longer than %v", c.options.Timeout)
	case ctx.Err() != nil:
		if why = "interrupted"; errors.Is(context.Cause(ctx), context.Canceled) {
			kind = context.Canceled
		}
	case errors.As(err, &syscallError):
		why = syscallError.Err.Error()
	case errors.As(err, &dns):
		why = fmt.Sprintf("the host is not known (%s)", dns.Err)
	case errors.As(err, &authority):
		why = "its certificate comes from an authority that is not known here"
	case errors.As(err, &certificate):
		why = "its certificate is refused: " + line(certificate.Err.Error())
	case errors.As(err, &record):
		why = "it does not speak TLS"
	default:
		for next := err; next != nil; next = errors.Unwrap(next) {
			err = next
		}
		why = line(err.Error())
	}
	return &failure{fmt.Sprintf("no server answers at %s: %s", c.Server(), why), kind}
}

// refused words an answer that is no success.
func (c *Client) refused(r request, response *http.Response, body []byte) error {
	reason, code := line(string(body)), response.StatusCode
	// A server that knows the path gives another reason than Go's net/http.
	unknown := reason == "404 page not found" || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain")
	answer, kind := fmt.Sprintf("refuses this (%d): %s", code, reason), error(nil)
	switch {
	case code/100 == 3:
		answer = fmt.Sprintf("redirects to %s, which is not followed", line(response.Header.Get("Location")))
	case code == http.StatusNotFound && unknown, code == http.StatusMethodNotAllowed:
		answer = fmt.Sprintf("is older than this program and has no %s, or it is not Weir", r.path)
	case code == http.StatusNotFound:
		answer, kind = "answers: "+reason, ErrNotFound
	case code == http.StatusUnauthorized:
		answer, kind = "refuses this: "+reason, ErrUnauthorized
	case code >= http.StatusInternalServerError: // such as 503, if Redis fails
		answer = fmt.Sprintf("cannot do this (%d): %s", code, reason)
	}
	return &failure{fmt.Sprintf("the server at %s %s", c.Server(), answer), kind}
}

// maxReason bounds what is shown of the reason of a server.
const maxReason = 500

// line returns the first line of what a server says, to be shown.
func line(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if first == "" {
		return "it gives no reason"
	}
	return plaintext.Line(operators.Begin(strings.TrimSpace(first), maxReason))
}
