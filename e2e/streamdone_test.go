package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"weir/internal/testenv"
)

// flight is the Envoy of examples/in-flight between a recorder and an upstream whose
// answers are as the path says.
type flight struct {
	*envoy
	t        *testing.T
	recorder *recorder

	mu    sync.Mutex
	tries map[string]int  // that reached the upstream, by user
	left  map[string]bool // users whose requests ended before they were answered
}

// holdRoutes are the routes of a flight, in Envoy's words.
const holdRoutes = `
- match: {prefix: /retried}
  route: {cluster: slow, retry_policy: {retry_on: 5xx, num_retries: 3, retry_back_off: {base_interval: 0.001s}}}
- match: {prefix: /timeout}
  route: {cluster: slow, timeout: 0.1s, prefix_rewrite: /slow}
- match: {prefix: /redirected}
  route: {cluster: slow, internal_redirect_policy: {}}
- match: {prefix: /direct}
  direct_response: {status: 204}
- match: {prefix: /removed}
  route: {cluster: slow}
  request_headers_to_remove: [x-user]
- match: {prefix: /}
  route: {cluster: slow, timeout: 0s}
`

// refusal is a filter that refuses requests with a header.
const refusal = `
name: refuse
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
  rules: {action: DENY, policies: {refused: {permissions: [{header: {name: x-refuse, string_match: {exact: WHERE}}}], principals: [{any: true}]}}}
`

// startFlight starts it. With one filter, that one takes and gives back. filter and manager
// change fields.
func startFlight(t *testing.T, oneFilter bool, filter map[string]any, manager string) *flight {
	t.Helper()
	testenv.Envoy(t)
	f := &flight{t: t, recorder: startRecorder(t), tries: map[string]int{}, left: map[string]bool{}}
	upstream := httptest.NewServer(f)
	t.Cleanup(upstream.Close)

	doc := readBootstrap(t, "examples/in-flight/envoy.yaml")
	setUpstreams(t, doc, f.recorder.addr, upstream.Listener.Addr().String())
	hcm := connectionManager(t, doc)
	host := get(t, hcm, "route_config", "virtual_hosts", 0)
	limits := get(t, host, "routes", 0, "typed_per_filter_config")
	filters := hcm["http_filters"].([]any)
	makePatient(t, doc)
	for i := range 2 {
		maps.Copy(get(t, filters[i], "typed_config"), filter)
	}
	if oneFilter {
		take := get(t, limits, "take")
		take["rate_limits"] = append(take["rate_limits"].([]any), get(t, limits, "give-back")["rate_limits"].([]any)...)
		delete(limits, "give-back")
		filters = filters[1:]
	}
	var before, after any
	parse(t, strings.ReplaceAll(refusal, "WHERE", "before"), &before)
	parse(t, strings.ReplaceAll(refusal, "WHERE", "after"), &after)
	router := len(filters) - 1
	hcm["http_filters"] = append(append([]any{before}, filters[:router]...), after, filters[router])
	var routes []any
	parse(t, holdRoutes, &routes)
	for _, route := range routes {
		route.(map[string]any)["typed_per_filter_config"] = limits
	}
	host["routes"] = routes
	parse(t, manager, &hcm)
	f.envoy = runEnvoy(t, doc)
	return f
}

func (f *flight) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := r.Header.Get("x-user")
	f.mu.Lock()
	f.tries[user]++
	tries := f.tries[user]
	f.mu.Unlock()
	switch r.URL.Path {
	case "/retried":
		if tries < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case "/redirected":
		w.Header().Set("location", "http://"+r.Host+"/")
		w.WriteHeader(http.StatusFound)
	case "/reset":
		panic(http.ErrAbortHandler)
	case "/part":
		fmt.Fprintln(w, "part")
		_ = http.NewResponseController(w).Flush() // fails only if Envoy has gone
		if r.URL.Query().Has("reset") {
			panic(http.ErrAbortHandler)
		}
		fallthrough
	case "/slow":
		<-r.Context().Done()
		f.mu.Lock()
		f.left[user] = true
		f.mu.Unlock()
	}
}

// waitFor waits until the upstream has what is wished.
func (f *flight) waitFor(wished func() bool) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !wished() {
			return errors.New("the upstream has not seen it")
		}
		return nil
	})
}

// status asks for path, which must be answered so; 0: the answer is cut off.
func (f *flight) status(path, user string, want int, headers ...string) {
	f.t.Helper()
	a, err := fetch("http://"+f.addr+path, append(headers, "x-user: "+user)...)
	if got := a.status; got != want || (err != nil) != (want == 0) {
		f.t.Errorf("%s: status %d (error: %v), want %d", user, got, err, want)
	}
}

// resetStream sends a request by HTTP/2 and resets its stream when the upstream works.
func (f *flight) resetStream(user string) {
	f.t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(f.t.Context())
	request := testenv.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.addr+"/slow", nil))(f.t)
	request.Header.Set("x-user", user)
	ended := make(chan error)
	go func() {
		resp, err := client.Do(request)
		if err == nil {
			resp.Body.Close()
		}
		ended <- err
	}()
	f.waitFor(func() bool { return f.tries[user] > 0 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		f.t.Errorf("%s: error %v, want that of the context", user, err)
	}
	f.waitFor(func() bool { return f.left[user] })
}

// settle waits until a request that is made now is given back. Envoy has one thread and
// one connection to the recorder, so all that it asks about earlier requests has come.
func (f *flight) settle(after string) {
	f.t.Helper()
	marker := "marker after " + after
	f.status("/", marker, 200)
	f.recorder.waitFor(f.t, marker, func(u record) bool { return u.takes == 1 && u.gives == 1 })
}

// TestStreamDone finds out which requests Envoy gives back, of all that may become of
// them, and compares with the table in examples/in-flight/README.md.
func TestStreamDone(t *testing.T) {
	t.Parallel()
	table := readDocument(t, filepath.Join(testenv.Repository(t), "examples/in-flight/README.md"))
	var ordinary, impatient [2]*flight // with two filters, with one
	for i := range 2 {
		ordinary[i] = startFlight(t, i == 1, nil, "")
		impatient[i] = startFlight(t, i == 1, map[string]any{"timeout": "0.2s"}, "")
	}
	for _, c := range []struct {
		row  string // in the table
		user string
		on   [2]*flight
		do   func(f *flight, user string)
		// what the recorder gets, with two filters, with one
		two, one string
	}{
		{"answered", "answered", ordinary, func(f *flight, user string) { f.status("/", user, 200) }, "take give", "take give"},
		{"denied by a limit", "denied", ordinary, func(f *flight, user string) { f.status("/", user, 429) }, "take give", "take give"},
		{"Weir fails", "undecided", ordinary, func(f *flight, user string) { f.status("/", user, 500) }, "take give", "take give"},
		{"Weir does not answer within `timeout`", "unanswered", impatient, func(f *flight, user string) { f.status("/", user, 500) }, "take give", "take give"},
		{"retried by Envoy", "retried", ordinary, func(f *flight, user string) { f.status("/retried", user, 200) }, "take give", "take give"},
		{"upstream times out", "late", ordinary, func(f *flight, user string) { f.status("/timeout", user, 504) }, "take give", "take give"},
		{"upstream closes the connection", "reset", ordinary, func(f *flight, user string) { f.status("/reset", user, 503) }, "take give", "take give"},
		{"upstream closes it within the answer", "cut", ordinary, func(f *flight, user string) { f.status("/part?reset", user, 0) }, "take give", "take give"},
		{"client leaves while the upstream works", "leaving", ordinary, func(f *flight, user string) {
			f.abandon("/slow", user, func(*bufio.Reader) { f.waitFor(func() bool { return f.tries[user] > 0 }) })
			f.waitFor(func() bool { return f.left[user] })
		}, "take give", "take give"},
		{"client leaves within the answer", "bored", ordinary, func(f *flight, user string) {
			f.abandon("/part", user, func(answer *bufio.Reader) {
				if _, err := answer.ReadString('\n'); err != nil {
					t.Error(err)
				}
			})
			f.waitFor(func() bool { return f.left[user] })
		}, "take give", "take give"},
		{"client resets the stream (HTTP/2)", "resetting", ordinary, func(f *flight, user string) { f.resetStream(user) }, "take give", "take give"},
		{"client leaves while Weir decides", "unanswered", ordinary, func(f *flight, user string) {
			f.abandon("/", user, func(*bufio.Reader) { f.recorder.waitFor(t, user, func(u record) bool { return u.takes > 0 }) })
			f.recorder.waitFor(t, user, func(u record) bool { return u.cancelled })
		}, "take give", "take"},
		{"refused by a filter before", "refused-before", ordinary, func(f *flight, user string) { f.status("/", user, 403, "x-refuse: before") }, "-", "-"},
		{"refused by a filter after", "refused-after", ordinary, func(f *flight, user string) { f.status("/", user, 403, "x-refuse: after") }, "take give", "take give"},
		{"`direct_response` or `redirect` of a route", "direct", ordinary, func(f *flight, user string) { f.status("/direct", user, 204) }, "-", "-"},
		{"redirected by Envoy (`internal_redirect_policy`)", "redirected", ordinary, func(f *flight, user string) { f.status("/redirected", user, 200) }, "take take give give", "take take give give"},
		{"header of the descriptor removed or changed by the route or a filter after", "removed", ordinary, func(f *flight, user string) { f.status("/removed", user, 200) }, "take", "take"},
	} {
		for i, want := range []string{c.two, c.one} {
			f := c.on[i]
			c.do(f, c.user)
			f.settle(c.user)
			testenv.Eventually(t, func() error { // the recorder may write down the last two in any order
				if got := f.recorder.of(c.user); got.String() != want || len(got.ids) > 1 {
					return fmt.Errorf("%s, %d filters: %s with the ids %q, want %s with one", c.row, 2-i, got, got.ids, want)
				}
				return nil
			})
		}
		if row := fmt.Sprintf("|%s|%s|%s|", c.row, c.two, c.one); !strings.Contains(table, "\n"+row+"\n") {
			t.Errorf("the README has no row %s", row)
		}
	}

	for _, f := range ordinary {
		ended := make(chan error)
		go func() {
			_, err := fetch("http://"+f.addr+"/slow", "x-user: last")
			ended <- err
		}()
		f.waitFor(func() bool { return f.tries["last"] > 0 })
		f.signal(syscall.SIGKILL)
		<-f.exited
		if err := <-ended; err == nil {
			t.Error("the last request was answered")
		}
		f.waitFor(func() bool { return f.left["last"] })
		if got := f.recorder.of("last"); got.String() != "take" {
			t.Errorf("Envoy is killed: %s, want take", got)
		}
	}
	if row := "|Envoy is killed|take|take|"; !strings.Contains(table, "\n"+row+"\n") {
		t.Errorf("the README has no row %s", row)
	}
}

// TestClientsThatChooseTheirRequestID finds out when a client can choose x-request-id,
// and so let many requests count as one.
func TestClientsThatChooseTheirRequestID(t *testing.T) {
	t.Parallel()
	const chosen = "11111111-1111-4111-8111-111111111111"
	table := readDocument(t, filepath.Join(testenv.Repository(t), "examples/in-flight/README.md"))
	for _, c := range []struct {
		row, manager     string
		chooses, without string // whether a client's id is taken, and what comes of a request without one
	}{
		{"`use_remote_address: true`", "", "no", "take give"},
		{"without it", "use_remote_address: false", "yes", "take give"},
		{"`preserve_external_request_id: true`", "preserve_external_request_id: true", "yes", "take give"},
		{"`internal_address_config` with the client's address", "internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.0, prefix_len: 8}]}", "yes", "take give"},
		{"`generate_request_id: false`", "generate_request_id: false", "yes", "-"},
	} {
		f := startFlight(t, false, nil, c.manager)
		f.status("/", "choosing", 200, "x-request-id: "+chosen)
		f.status("/", "silent", 200)
		f.status("/", "other", 200, "x-request-id: "+chosen)
		f.recorder.waitFor(t, "other", func(u record) bool { return u.takes == 1 && u.gives == 1 })
		chooses := "no"
		if f.recorder.of("choosing").ids[0] == chosen {
			chooses = "yes"
		}
		if got := f.recorder.of("silent"); chooses != c.chooses || got.String() != c.without {
			t.Errorf("%s: a client chooses: %s, and without an id: %s, want %s and %s", c.row, chooses, got, c.chooses, c.without)
		}
		if row := fmt.Sprintf("|%s|%s|%s|", c.row, c.chooses, c.without); !strings.Contains(table, "\n"+row+"\n") {
			t.Errorf("the README has no row %s", row)
		}
	}
}
