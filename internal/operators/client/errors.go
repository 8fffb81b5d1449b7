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
	return &failure{text: fmt.Sprintf(format, args...)}
}

func (c *Client) notWeir(path string) error {
	return c.errorf("what answers at %s is not the debug port of Weir: its answer to %s is not that of Weir", c.Server(), path)
}

// unreachable words an error of the connection.
func (c *Client) unreachable(ctx context.Context, err error) error {
	kind := ErrUnreachable
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		kind = context.Canceled
	}
	return &failure{text: fmt.Sprintf("no server answers at %s: %s", c.Server(), c.why(ctx, err)), kind: kind}
}

// why words what is wrong with a connection, without what surrounds it in err.
func (c *Client) why(ctx context.Context, err error) string {
	var syscallError *os.SyscallError
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var timeout net.Error
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("it takes longer than %v", c.options.Timeout)
	case ctx.Err() != nil:
		return "interrupted"
	case errors.As(err, &syscallError):
		return syscallError.Err.Error()
	case errors.As(err, &dns):
		return fmt.Sprintf("the host is not known (%s)", dns.Err)
	case errors.As(err, &authority):
		return "its certificate comes from an authority that is not known here"
	case errors.As(err, &certificate):
		return "its certificate is refused: " + line([]byte(certificate.Err.Error()))
	case errors.As(err, &record):
		return "it does not speak TLS"
	default:
		return line([]byte(innermost(err).Error()))
	}
}

func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// refused words an answer that is no success.
func (c *Client) refused(r request, response *http.Response, body []byte) error {
	reason := line(body)
	switch code := response.StatusCode; {
	case code/100 == 3:
		return c.errorf("the server at %s redirects to %s, which is not followed", c.Server(), line([]byte(response.Header.Get("Location"))))
	case code == http.StatusNotFound && !knows(response, reason), code == http.StatusMethodNotAllowed:
		return c.errorf("the server at %s is older than this program and has no %s, or it is not Weir", c.Server(), r.path)
	case code == http.StatusNotFound:
		return &failure{text: fmt.Sprintf("the server at %s answers: %s", c.Server(), reason), kind: ErrNotFound}
	case code == http.StatusUnauthorized:
		return &failure{text: fmt.Sprintf("the server at %s refuses this: %s", c.Server(), reason), kind: ErrUnauthorized}
	case code >= http.StatusInternalServerError: // such as 503, if Redis fails
		return c.errorf("the server at %s cannot do this (%d): %s", c.Server(), code, reason)
	default:
		return c.errorf("the server at %s refuses this (%d): %s", c.Server(), code, reason)
	}
}

// knows reports whether a server that answers 404 knows the path: then it gives a reason
// other than that of Go's net/http.
func knows(response *http.Response, reason string) bool {
	return reason != "404 page not found" && strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain")
}

// maxReason bounds what is shown of the reason of a server.
const maxReason = 500

// line returns the first line of what a server says, to be shown.
func line(text []byte) string {
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if first == "" {
		return "it gives no reason"
	}
	return plaintext.Line(operators.Begin(strings.TrimSpace(first), maxReason))
}
