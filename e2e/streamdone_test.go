package e2e

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"weir/internal/testenv"
)

// flight is the Envoy of examples/in-flight between a rate limit service and an upstream, which
// both record the requests of each user. The name of the user selects the answer of the
// service, and the path selects the answer of the upstream.
type flight struct {
	*envoy
	service.UnimplementedRateLimitServiceServer
	ended chan struct{} // closed when the test ends

	mu    sync.Mutex
	users map[string]*record
}

// record contains the calls to the service and the requests to the upstream of one user.
type record struct {
	takes, returns int      // calls to take a unit, and to return it
	ids            []string // distinct request IDs
	cancelled      bool     // Envoy has cancelled an unanswered call
	tries          int      // requests that have reached the upstream
	left           bool     // a request has ended before the upstream has answered
}

// String lists the calls, takes first. Their order is unknown, because they may be in flight
// at the same time.
func (u record) String() string {
	if u.takes+u.returns == 0 {
		return "-"
	}
	return strings.TrimSpace(strings.Repeat("take ", u.takes) + strings.Repeat("return ", u.returns))
}

// holdRoutes are the routes of a flight, as YAML of Envoy's configuration.
const holdRoutes = `
routes:
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

// refusal is a filter that refuses requests with a value in the header x-refuse.
const refusal = `
- name: refuse
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
    rules: {action: DENY, policies: {refused: {permissions: [{header: {name: x-refuse, string_match: {exact: %s}}}], principals: [{any: true}]}}}
`

// startFlight starts a flight. With oneFilter, one filter both takes and returns. timeout is
// the timeout of the filters, and manager contains fields of the connection manager.
func startFlight(t *testing.T, oneFilter bool, timeout, manager string) *flight {
	t.Helper()
	testenv.Envoy(t)
	f := &flight{ended: make(chan struct{}), users: map[string]*record{}}
	server := grpc.NewServer()
	service.RegisterRateLimitServiceServer(server, f)
	g := gateway{example: "examples/in-flight/envoy.yaml", filters: fmt.Sprintf(refusal, "before"), upstream: serve(t, f), manager: manager}
	doc := g.bootstrap(t, testenv.ServeGRPC(t, server))
	t.Cleanup(func() { close(f.ended) }) // lets the server stop
	hcm := connectionManager(t, doc)
	host := get(t, hcm, "route_config", "virtual_hosts", 0)
	limits := get(t, host, "routes", 0, "typed_per_filter_config")
	host["typed_per_filter_config"] = limits
	parse(t, holdRoutes, &host)
	filters := hcm["http_filters"].([]any) // they refuse, return, take and route, in this order
	for _, filter := range filters[1:3] {
		get(t, filter, "typed_config")["timeout"] = timeout
	}
	if oneFilter {
		take := get(t, limits, "take")
		take["rate_limits"] = append(take["rate_limits"].([]any), get(t, limits, "give-back")["rate_limits"].([]any)...)
		delete(limits, "give-back")
		filters = slices.Delete(filters, 1, 2)
	}
	var after []any
	parse(t, fmt.Sprintf(refusal, "after"), &after)
	hcm["http_filters"] = slices.Insert(filters, len(filters)-1, after...)
	f.envoy = runEnvoy(t, doc)
	return f
}

func (f *flight) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := r.Header.Get("x-user")
	tries := f.note(user, func(u *record) { u.tries++ }).tries
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
		_ = http.NewResponseController(w).Flush() // fails only if Envoy has disconnected
		if r.URL.Query().Has("reset") {
			panic(http.ErrAbortHandler)
		}
		fallthrough
	case "/slow":
		<-r.Context().Done()
		f.note(user, func(u *record) { u.left = true })
	}
}

// ShouldRateLimit implements service.RateLimitServiceServer.
func (f *flight) ShouldRateLimit(ctx context.Context, request *service.RateLimitRequest) (*service.RateLimitResponse, error) {
	d := request.GetDescriptors()[0]
	user, id := d.GetEntries()[0].GetValue(), d.GetEntries()[1].GetValue()
	f.note(user, func(u *record) {
		if d.GetIsNegativeHits() {
			u.returns++
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
		f.note(user, func(u *record) { u.cancelled = true })
		<-f.ended // an earlier answer might arrive just before Envoy gives up
	}
	return &service.RateLimitResponse{OverallCode: service.RateLimitResponse_OK}, nil
}

// note changes the record of a user and returns a copy of it.
func (f *flight) note(user string, change func(*record)) record {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users[user] == nil {
		f.users[user] = new(record)
	}
	change(f.users[user])
	return *f.users[user]
}

func (f *flight) of(user string) record { return f.note(user, func(*record) {}) }

// waitForCalls waits until Envoy has made exactly these calls for a user.
func (f *flight) waitForCalls(user, calls string) {
	f.t.Helper()
	testenv.Becomes(f.t, "calls for "+user, calls, func() string { return f.of(user).String() })
}

// waitForTry waits until a request of a user has reached the upstream.
func (f *flight) waitForTry(user string) {
	f.t.Helper()
	testenv.Until(f.t, user+" reaches the upstream", func() bool { return f.of(user).tries > 0 })
}

// waitForLeaving waits until a request of a user has ended before the upstream has answered.
func (f *flight) waitForLeaving(user string) {
	f.t.Helper()
	testenv.Until(f.t, user+" leaves the upstream", func() bool { return f.of(user).left })
}

// status sends a request for path and compares the status. If want is 0, the answer must be
// cut off.
func (f *flight) status(path, user string, want int, headers ...string) {
	f.t.Helper()
	a, err := fetch("http://"+f.addr+path, append(headers, "x-user: "+user)...)
	if got := a.status; got != want || (err != nil) != (want == 0) {
		f.t.Errorf("%s: status %d (error: %v), want %d", user, got, err, want)
	}
}

// resetStream sends a request by HTTP/2 and resets its stream while the upstream works.
func (f *flight) resetStream(user string) {
	f.t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithCancel(f.t.Context())
	request := testenv.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.addr+"/slow", nil))(f.t)
	request.Header.Set("x-user", user)
	go func() {
		defer cancel()
		f.waitForTry(user)
	}()
	resp, err := transport.RoundTrip(request)
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		f.t.Errorf("%s: error %v, want that of the context", user, err)
	}
	f.waitForLeaving(user)
}

// settle sends another request and waits until Envoy has returned its unit. Envoy has one
// thread and one connection to the service, so all calls for earlier requests have arrived.
func (f *flight) settle(after string) {
	f.t.Helper()
	marker := "marker after " + after
	f.status("/", marker, 200)
	f.waitForCalls(marker, "take return")
}

// wantRow fails the test unless the table of examples/in-flight/README.md has a row.
func wantRow(t *testing.T, cells ...string) {
	t.Helper()
	testenv.Contains(t, readDocument(t, "examples/in-flight/README.md"), "\n|"+strings.Join(cells, "|")+"|\n")
}

// TestStreamDone finds out for which outcomes of a request Envoy returns its unit, and compares
// them with the table in examples/in-flight/README.md.
func TestStreamDone(t *testing.T) {
	t.Parallel()
	var ordinary, impatient [2]*flight // index 0 has two filters, index 1 has one
	for i := range 2 {
		ordinary[i] = startFlight(t, i == 1, "60s", "")
		impatient[i] = startFlight(t, i == 1, "0.2s", "")
	}
	gets := func(path string, status int, headers ...string) func(*flight, string) {
		return func(f *flight, user string) { f.status(path, user, status, headers...) }
	}
	for _, c := range []struct {
		row  string // first cell of its row in the table
		user string
		do   func(f *flight, user string)
		both string // calls with two filters and with one, by default a take and a return
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
			f.abandon("/slow", user, func(*bufio.Reader) { f.waitForTry(user) })
			f.waitForLeaving(user)
		}},
		{row: "client leaves within the answer", user: "bored", do: func(f *flight, user string) {
			f.abandon("/part", user, func(answer *bufio.Reader) { testenv.Must(answer.ReadString('\n'))(t) })
			f.waitForLeaving(user)
		}},
		{row: "client resets the stream (HTTP/2)", user: "resetting", do: (*flight).resetStream},
		{row: "client leaves while Weir decides", user: "unanswered", do: func(f *flight, user string) {
			f.abandon("/", user, func(*bufio.Reader) { f.waitForCalls(user, "take") })
			testenv.Until(t, "the call is cancelled", func() bool { return f.of(user).cancelled })
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
			wants[1] = "take" // only here, one filter makes fewer calls than two
		}
		for i, want := range wants {
			f := on[i]
			c.do(f, c.user)
			f.settle(c.user)
			f.waitForCalls(c.user, want) // the service may record the last two calls in any order
			if got := f.of(c.user); len(got.ids) > 1 {
				t.Errorf("%s, %d filters: the ids %q, want one", c.row, 2-i, got.ids)
			}
		}
		wantRow(t, c.row, wants[0], wants[1])
	}

	for _, f := range ordinary {
		f.abandon("/slow", "last", func(*bufio.Reader) {
			f.waitForTry("last")
			f.kill()
		})
		f.waitForLeaving("last")
		testenv.Equal(t, f.of("last").String(), "take", "calls of an Envoy that is killed")
	}
	wantRow(t, "Envoy is killed", "take", "take")
}

// TestClientsThatChooseTheirRequestID finds out when a client can choose x-request-id, and
// make many requests count as one in this way.
func TestClientsThatChooseTheirRequestID(t *testing.T) {
	t.Parallel()
	const chosen = "11111111-1111-4111-8111-111111111111"
	for _, c := range []struct {
		row, manager     string
		chooses, without string // whether Envoy keeps a client's ID, and the calls for a request without ID
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
		f.waitForCalls("other", "take return")
		chooses := "no"
		if f.of("choosing").ids[0] == chosen {
			chooses = "yes"
		}
		if got := f.of("silent"); chooses != c.chooses || got.String() != c.without {
			t.Errorf("%s: a client chooses: %s, and without an id: %s, want %s and %s", c.row, chooses, got, c.chooses, c.without)
		}
		wantRow(t, c.row, c.chooses, c.without)
	}
}
