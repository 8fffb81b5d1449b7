package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"weir/internal/testenv"
)

// Envoy passes the bytes of a header or a query parameter on as they came, and
// what is not UTF-8 is not a valid string of protobuf. Such a request must not
// be a way around a limit.
func TestValuesThatAreNoTextAreLimitedLikeAnyOther(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: term
    rate_limit: {unit: day, requests_per_unit: 2}
`
	inEachStore(t, rules, func(t *testing.T, s *stack) {
		for _, c := range []struct{ name, path, user string }{
			{"header with one byte of no text", "/", "alice\xff"},
			{"header with another one", "/", "alice\xfe"},
			{"header with an unfinished character", "/", "alice\xc3"},
			{"query parameter", "/search?q=%ff", ""},
			{"another query parameter", "/search?q=%fe", ""},
		} {
			for i, want := range []int{200, 200, 429, 429} {
				if got := askRaw(t, s.addr, c.path, c.user); got != want {
					t.Errorf("%s: request %d: status %d, want %d", c.name, i+1, got, want)
				}
			}
		}
		// Nor are they taken for the same value without those bytes.
		s.want("/", "x-user: alice", 200, 200, 429)
	})
}

// connect returns a connection to addr, on which nothing takes longer than patience.
func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn := testenv.Must(net.Dial("tcp", addr))(t)
	testenv.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// askRaw asks for path on a connection of its own, with bytes in the header
// x-user that an HTTP client would refuse to send, and returns the status.
func askRaw(t *testing.T, addr, path, user string) int {
	t.Helper()
	conn := connect(t, addr)
	defer conn.Close()
	testenv.Must(fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: example\r\nx-user: %s\r\nConnection: close\r\n\r\n", path, user))(t)
	resp := testenv.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer resp.Body.Close()
	return resp.StatusCode
}
