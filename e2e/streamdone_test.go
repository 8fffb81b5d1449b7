package e2e

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

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

// startFlight starts it. With one filter, that one takes and returns. timeout is of the
// filters, manager changes fields.
func startFlight(t *testing.T, oneFilter bool, timeout, manager string) *flight {
	t.Helper()
	testenv.Envoy(t)
	f := &flight{t: t, recorder: startRecorder(t), tries: map[string]int{}, left: map[string]bool{}}
	upstream := httptest.NewServer(f)
	t.Cleanup(upstream.Close)

	g := gateway{example: "examples/in-flight/envoy.yaml", upstream: upstream.Listener.Addr().String(), manager: manager}
	doc := g.bootstrap(t, f.recorder.addr)
	hcm := connectionManager(t, doc)
	host := get(t, hcm, "route_config", "virtual_hosts", 0)
	limits := get(t, host, "routes", 0, "typed_per_filter_config")
	filters := hcm["http_filters"].([]any)
	for i := range 2 {
		get(t, filters[i], "typed_config")["timeout"] = timeout
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
	testenv.Until(f.t, "the upstream sees it", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return wished()
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

// settle waits until a request that is made now is returned. Envoy has one thread and
// one connection to the recorder, so all that it asks about earlier requests has come.
func (f *flight) settle(after string) {
	f.t.Helper()
	marker := "marker after " + after
	f.status("/", marker, 200)
	f.recorder.waitFor(f.t, marker, func(u record) bool { return u.takes == 1 && u.gives == 1 })
}

// wantRow fails the test unless the table of examples/in-flight/README.md has a row.
func wantRow(t *testing.T, cells ...string) {
	t.Helper()
	row := "|" + strings.Join(cells, "|") + "|"
	if !strings.Contains(readDocument(t, "examples/in-flight/README.md"), "\n"+row+"\n") {
		t.Errorf("examples/in-flight/README.md has no row %s", row)
	}
}

// TestStreamDone finds out which requests Envoy returns, of all that may become of
// them, and compares with the table in examples/in-flight/README.md.
func TestStreamDone(t *testing.T) {
	t.Parallel()
	var ordinary, impatient [2]*flight // with two filters, with one
	for i := range 2 {
		ordinary[i] = startFlight(t, i == 1, "60s", "")
		impatient[i] = startFlight(t, i == 1, "0.2s", "")
	}
	gets := func(path string, status int, headers ...string) func(*flight, string) {
		return func(f *flight, user string) { f.status(path, user, status, headers...) }
	}
	for _, c := range []struct {
		row  string // in the table
		user string
		do   func(f *flight, user string)
		both string // what the recorder gets, by default a take and a return
	}{
		{row: "answered", user: "answered", do: gets("/", 200)},
		{row: "denied by a limit", user: "denied", do: gets("/", 429)},
		{row: "Weir fails", user: "undecided", do: gets("/", 500)},
		{row: "Weir does not answer within `timeout`", user: "unanswered", do: gets("/", 500)},
		{row: "retried by Envoy", user: "retried", do: gets("/retried", 200)},
		{row: "upstream times out", user: "late", do: gets("/timeout", 504)},
		{row: "upstream closes the connection", user: "reset", do: gets("/reset", 503)},
		{row: "upstream closes it within the answer", user: "cut", do: gets("/part?reset", 0)},
		{row: "client leaves while the upstream works", user: "leaving", do: func(f *flight, user string) {
			f.abandon("/slow", user, func(*bufio.Reader) { f.waitFor(func() bool { return f.tries[user] > 0 }) })
			f.waitFor(func() bool { return f.left[user] })
		}},
		{row: "client leaves within the answer", user: "bored", do: func(f *flight, user string) {
			f.abandon("/part", user, func(answer *bufio.Reader) { testenv.Must(answer.ReadString('\n'))(t) })
			f.waitFor(func() bool { return f.left[user] })
		}},
		{row: "client resets the stream (HTTP/2)", user: "resetting", do: (*flight).resetStream},
		{row: "client leaves while Weir decides", user: "unanswered", do: func(f *flight, user string) {
			f.abandon("/", user, func(*bufio.Reader) { f.recorder.waitFor(t, user, func(u record) bool { return u.takes > 0 }) })
			f.recorder.waitFor(t, user, func(u record) bool { return u.cancelled })
		}},
		{row: "refused by a filter before", user: "refused-before", do: gets("/", 403, "x-refuse: before"), both: "-"},
		{row: "refused by a filter after", user: "refused-after", do: gets("/", 403, "x-refuse: after")},
		{row: "`direct_response` or `redirect` of a route", user: "direct", do: gets("/direct", 204), both: "-"},
		{row: "redirected by Envoy (`internal_redirect_policy`)", user: "redirected", do: gets("/redirected", 200), both: "take take return return"},
		{row: "header of the descriptor removed or changed by the route or a filter after", user: "removed", do: gets("/removed", 200), both: "take"},
	} {
		wants := [2]string{cmp.Or(c.both, "take return"), cmp.Or(c.both, "take return")}
		on := ordinary
		switch c.row {
		case "Weir does not answer within `timeout`":
			on = impatient
		case "client leaves while Weir decides":
			wants[1] = "take" // the one case in which one filter does less
		}
		for i, want := range wants {
			f := on[i]
			c.do(f, c.user)
			f.settle(c.user)
			testenv.Eventually(t, func() error { // the recorder may write down the last two in any order
				if got := f.recorder.of(c.user); got.String() != want || len(got.ids) > 1 {
					return fmt.Errorf("%s, %d filters: %s with the ids %q, want %s with one", c.row, 2-i, got, got.ids, want)
				}
				return nil
			})
		}
		wantRow(t, c.row, wants[0], wants[1])
	}

	for _, f := range ordinary {
		ended := make(chan error)
		go func() {
			_, err := fetch("http://"+f.addr+"/slow", by("last")...)
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
	wantRow(t, "Envoy is killed", "take", "take")
}

// TestClientsThatChooseTheirRequestID finds out when a client can choose x-request-id,
// and so let many requests count as one.
func TestClientsThatChooseTheirRequestID(t *testing.T) {
	t.Parallel()
	const chosen = "11111111-1111-4111-8111-111111111111"
	for _, c := range []struct {
		row, manager     string
		chooses, without string // whether a client's id is taken, and what comes of a request without one
	}{
		{"`use_remote_address: true`", "", "no", "take return"},
		{"without it", "use_remote_address: false", "yes", "take return"},
		{"`preserve_external_request_id: true`", "preserve_external_request_id: true", "yes", "take return"},
		{"`internal_address_config` with the client's address", "internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.0, prefix_len: 8}]}", "yes", "take return"},
		{"`generate_request_id: false`", "generate_request_id: false", "yes", "-"},
	} {
		f := startFlight(t, false, "60s", c.manager)
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
		wantRow(t, c.row, c.chooses, c.without)
	}
}

// recorder is a rate limit service that remembers what Envoy asks about the requests of
// each user. It answers as the name of the user says.
type recorder struct {
	service.UnimplementedRateLimitServiceServer
	addr  string
	ended chan struct{} // closed when the test ends

	mu    sync.Mutex
	users map[string]*record
}

// record is what Envoy asked about one user.
type record struct {
	takes, gives int
	ids          []string // of the requests, each once
	cancelled    bool     // a call that was not answered
}

func startRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{ended: make(chan struct{}), users: map[string]*record{}}
	server := grpc.NewServer()
	service.RegisterRateLimitServiceServer(server, r)
	r.addr = testenv.ServeGRPC(t, server)
	t.Cleanup(func() { close(r.ended) })
	return r
}

// ShouldRateLimit implements service.RateLimitServiceServer.
func (r *recorder) ShouldRateLimit(ctx context.Context, request *service.RateLimitRequest) (*service.RateLimitResponse, error) {
	d := request.GetDescriptors()[0]
	user, id := d.GetEntries()[0].GetValue(), d.GetEntries()[1].GetValue()
	r.note(user, func(u *record) {
		if d.GetIsNegativeHits() {
			u.gives++
		} else {
			u.takes++
		}
		if !slices.Contains(u.ids, id) {
			u.ids = append(u.ids, id)
		}
	})
	switch kind, _, _ := strings.Cut(user, " "); {
	case d.GetIsNegativeHits():
	case kind == "denied":
		return &service.RateLimitResponse{OverallCode: service.RateLimitResponse_OVER_LIMIT}, nil
	case kind == "undecided":
		return nil, grpcstatus.Error(codes.Unavailable, "the store failed")
	case kind == "unanswered":
		<-ctx.Done()
		r.note(user, func(u *record) { u.cancelled = true })
		<-r.ended // or the answer may come just before Envoy gives up
	}
	return &service.RateLimitResponse{OverallCode: service.RateLimitResponse_OK}, nil
}

func (r *recorder) note(user string, change func(*record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[user] == nil {
		r.users[user] = new(record)
	}
	change(r.users[user])
}

// of returns what is known of a user.
func (r *recorder) of(user string) (u record) {
	r.note(user, func(known *record) { u = *known })
	return u
}

// waitFor waits until what is known of a user is as wished.
func (r *recorder) waitFor(t *testing.T, user string, wished func(record) bool) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if u := r.of(user); !wished(u) {
			return fmt.Errorf("%s: %+v", user, u)
		}
		return nil
	})
}

// String words the calls, takes first: their order is not known, because they may be on
// their way at the same time.
func (u record) String() string {
	if u.takes+u.gives == 0 {
		return "-"
	}
	return strings.TrimSpace(strings.Repeat("take ", u.takes) + strings.Repeat("return ", u.gives))
}
