package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// answer is an HTTP response that has been read.
type answer struct {
	status int
	header http.Header
	body   string
}

// client opens a connection per request, so that a process under test that
// counts or drains connections meets no idle one.
var client = &http.Client{
	Timeout:   patience,
	Transport: &http.Transport{DisableKeepAlives: true},
}

// fetch gets url with headers, each "name: value".
func fetch(url string, headers ...string) (answer, error) {
	return fetchBy(client, url, headers...)
}

// fetchBy fetches by means of a client.
func fetchBy(client *http.Client, url string, headers ...string) (answer, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return answer{}, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	return read(resp)
}

func read(resp *http.Response) (answer, error) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, resp.Header, string(body)}, nil
}

// post posts a body by means of a client.
func post(client *http.Client, url, contentType, body string) (answer, error) {
	resp, err := client.Post(url, contentType, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	return read(resp)
}

// ask gets path from Envoy, which must answer.
func (e *envoy) ask(path string, headers ...string) answer {
	e.t.Helper()
	a, err := fetch("http://"+e.addr+path, headers...)
	if err != nil {
		e.t.Fatalf("asking Envoy for %s: %v", path, err)
	}
	return a
}

// askInBackground asks for path; the channel gets the answer when there is one.
func (e *envoy) askInBackground(path, user string) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		a, err := fetch("http://"+e.addr+path, "x-user: "+user)
		if err != nil {
			e.t.Errorf("asking Envoy for %s: %v", path, err)
		}
		answers <- a
	}()
	return answers
}

// abandon sends a request, waits until ready, and closes the connection.
func (e *envoy) abandon(path, user string, ready func(answer *bufio.Reader)) {
	e.t.Helper()
	conn := connect(e.t, e.addr)
	defer conn.Close() // connect does so only when the test ends
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nhost: a\r\nx-user: %s\r\n\r\n", path, user)
	ready(bufio.NewReader(conn))
}

// want asks Envoy for path as often as there are statuses, and compares.
func (e *envoy) want(path, header string, statuses ...int) {
	e.t.Helper()
	for i, want := range statuses {
		if got := e.ask(path, header).status; got != want {
			e.t.Fatalf("request %d to %s with %q: status %d, want %d", i+1, path, header, got, want)
		}
	}
}

// connect returns a connection to addr, on which nothing takes longer than patience.
func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn := testenv.Must(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { conn.Close() })
	testenv.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// startUpstream starts what Envoy forwards to, and returns its address.
func startUpstream(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "upstream got %s", r.URL)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// awayFromMidnight waits if the day, in UTC, is about to end: the tests count per
// day, and a day that ends in between would begin a new count. It builds the
// program first, which may take longer than all that follows.
func awayFromMidnight(t *testing.T) {
	t.Helper()
	program(t)
	awayFromEnd(24 * time.Hour)
}

// awayFromEnd waits for the end of the period that the epoch is divided into, if
// it is near: on a busy machine a few requests may take half a minute.
func awayFromEnd(period time.Duration) {
	now := time.Now()
	if end := now.Truncate(period).Add(period); end.Sub(now) < min(period/2, 2*time.Minute) {
		testenv.Pass(time.Until(end))
	}
}
