package envoyconfig

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// load reads a configuration that must be valid.
func load(tb testing.TB, text string, o Options) *Config {
	tb.Helper()
	return testenv.Must(Load([]byte(text), "f.yaml", o))(tb)
}

func readFile(tb testing.TB, name string) string {
	tb.Helper()
	return testenv.Read(tb, filepath.Join(testenv.Repository(tb), name))
}

// lines returns descriptors as text.
func lines(results []Result) (lines []string) {
	for _, r := range results {
		line := r.Domain
		for _, e := range r.Entries {
			line += " " + e.Key + "=" + e.Value
		}
		if r.HasHitsAddend {
			line += fmt.Sprintf(" hits %d", r.HitsAddend)
		}
		if r.Refund {
			line += " back"
		}
		if r.OnStreamDone {
			line += " done"
		}
		lines = append(lines, line)
	}
	return lines
}

func alice(path string, headers ...Header) Request {
	return Request{
		Headers:       append([]Header{{":method", "GET"}, {":scheme", "https"}, {":authority", "api.example.com"}, {":path", path}, {"x-user", "alice"}}, headers...),
		RemoteAddress: "192.0.2.7",
	}
}

// at returns the request with another host.
func (r Request) at(authority string) Request {
	r.Headers = append([]Header{{":authority", authority}}, r.Headers...)
	return r
}

const mapping = `domain: api
rate_limits:
  - actions:
      - request_headers: {header_name: x-user, descriptor_key: user}
      - generic_key: {descriptor_key: path, descriptor_value: /a}
  - actions: [{masked_remote_address: {v4_prefix_mask_len: 24}}]
    hits_addend: {number: 2, is_negative_hits: true}
    apply_on_stream_done: true
  - actions: [{query_parameters: {query_parameter_name: q, descriptor_key: q}}]
`

func TestMapping(t *testing.T) {
	c := load(t, mapping, Options{})
	want := []string{"api user=alice path=/a", "api q=1 2", "api masked_remote_address=192.0.2.0/24 hits 2 back done"}
	testenv.EqualLists(t, lines(c.AppendDescriptors(nil, new(alice("/a?q=1%202")))), want, "descriptors")
	testenv.EqualLists(t, c.Needs, []string{":path", RemoteAddress, "x-user"}, "needs")
	testenv.Equal(t, c.AppendDescriptors(nil, new(alice("/")))[0].Location, "f.yaml:3:5: rate_limits[0]", "location")
}

// Envoy Gateway sets descriptor_value to a format of the access log, so Envoy sends the address of a client
// in one of the networks. e2e compares this with a real Envoy.
func TestAddressInNetwork(t *testing.T) {
	const text = `{descriptor_key: remote_address, descriptor_value: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", address_matcher: {ranges: [{address_prefix: 198.51.100.0, prefix_len: 24}, {address_prefix: "2001:db8::", prefix_len: 32}]}}`
	c := load(t, oneAction("remote_address_match: "+text), Options{})
	for address, want := range map[string]string{"198.51.100.7": "[d remote_address=198.51.100.7]", "2001:0db8::0:7": "[d remote_address=2001:db8::7]", "192.0.2.1": "[]", "": "[]"} {
		if got := fmt.Sprint(lines(c.AppendDescriptors(nil, &Request{RemoteAddress: address}))); got != want || len(c.Notes) > 0 {
			t.Errorf("%s: %s, want %s, notes %v", address, got, want, c.Notes)
		}
	}
}

// A file may be a single listener that has only a default filter chain.
func TestListenerWithDefaultChain(t *testing.T) {
	_, listener, _ := strings.Cut(oneRoute("match: {prefix: /}, route: {cluster: c, rate_limits: [{actions: [{remote_address: {}}]}]}"), "    - name: l\n      filter_chains:\n        - filters:\n")
	c := load(t, "name: l\ndefault_filter_chain:\n          filters:\n"+listener, Options{})
	testenv.EqualLists(t, lines(c.AppendDescriptors(nil, new(alice("/")))), []string{"d remote_address=192.0.2.7"}, "descriptors")
}

// A request without the properties that a log may lack has fewer descriptors, and causes no panic.
func TestBareRequest(t *testing.T) {
	for _, file := range []string{"e2e/testdata/descriptors.yaml", "examples/istio/gateway.yaml"} {
		load(t, readFile(t, file), Options{}).AppendDescriptors(nil, &Request{})
	}
	testenv.EqualLists(t, lines(load(t, mapping, Options{}).AppendDescriptors(nil, &Request{RemoteAddress: "@"})), nil, "descriptors")
}

// A CONNECT request has no path, so it matches only a route with a connect_matcher.
func TestConnect(t *testing.T) {
	for match, want := range map[string]int{"prefix: /": 0, "connect_matcher: {}": 1, "safe_regex: {regex: .*}": 0} {
		c := load(t, oneRoute("match: {"+match+"}, route: {cluster: c, rate_limits: [{actions: [{remote_address: {}}]}]}"), Options{})
		r := Request{Headers: []Header{{":method", "CONNECT"}, {":authority", "a:443"}}, RemoteAddress: "192.0.2.7"}
		testenv.Equal(t, len(c.AppendDescriptors(nil, &r)), want, "descriptors of %s", match)
	}
}

const manifests = "internal/offline/envoyconfig/testdata/manifests.yaml"

func TestEnvoyFilter(t *testing.T) {
	gateway := Options{From: "GATEWAY istio=ingressgateway"}
	c := load(t, readFile(t, manifests), gateway)
	login := alice("/")
	login.Route = "login"
	for _, tt := range []struct {
		request Request
		want    []string
	}{
		{alice("/"), []string{"mesh generic_key=host"}},
		{login, []string{"mesh remote_address=192.0.2.7"}},
		{alice("/new?x"), []string{"mesh destination_cluster=x"}},
		{alice("/").at("other.example.com"), nil},
	} {
		testenv.EqualLists(t, lines(c.AppendDescriptors(nil, &tt.request)), tt.want, "descriptors of %+v", tt.request)
	}
	testenv.EqualLists(t, c.Needs, []string{":authority", ":path", RemoteAddress, RouteName}, "needs")
	sidecar := load(t, readFile(t, manifests), Options{From: "SIDECAR_INBOUND istio=ingressgateway", Domain: "inside"})
	testenv.EqualLists(t, lines(sidecar.AppendDescriptors(nil, &login)), []string{"inside generic_key=sidecar"}, "descriptors of a sidecar")
	for _, file := range []string{"gateway", "sidecar"} {
		c := load(t, readFile(t, "examples/istio/"+file+".yaml"), Options{})
		testenv.EqualLists(t, lines(c.AppendDescriptors(nil, new(alice("/x")))), []string{"ratelimit PATH=/x"}, "descriptors of %s", file)
	}
}

// A file may contain only route configurations, such as the list that istioctl prints.
func TestRouteConfigurations(t *testing.T) {
	text := `[{"name": "a", "virtualHosts": [{"name": "x", "domains": ["*"], "routes": [
	  {"match": {"prefix": "/"}, "route": {"cluster": "c", "rateLimits": [{"actions": [{"remoteAddress": {}}], "stage": 3}]}}]}]},
	 {"name": "b", "virtualHosts": []}, {"name": "c", "virtualHosts": [{"name": "x", "domains": ["y"], "rateLimits": []}]}]`
	c := load(t, text, Options{Domain: "d", From: "a"})
	testenv.EqualLists(t, lines(c.AppendDescriptors(nil, new(alice("/")))), []string{"d remote_address=192.0.2.7"}, "descriptors")
}

// AppendDescriptors reuses memory, because simulations call it hundreds of thousands of
// times per second.
func TestAppendDescriptorsAllocatesNothing(t *testing.T) {
	c := load(t, readFile(t, "e2e/testdata/descriptors.yaml"), Options{})
	requests := []Request{alice("/headers?q=1").at("localhost"), alice("/match", Header{"x-a", "One"}).at("localhost"), alice("/query?q=a&r=b").at("localhost"), alice("/stages").at("localhost")}
	results := c.AppendDescriptors(nil, &requests[1])
	if n := testing.AllocsPerRun(100, func() {
		for i := range requests {
			results = c.AppendDescriptors(results[:0], &requests[i])
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	testenv.Equal(t, len(results), 4, "descriptors of the last request, %q", lines(results))
}

// FuzzLoad loads hostile files, and computes the descriptors of hostile requests.
func FuzzLoad(f *testing.F) {
	for _, text := range []string{mapping, readFile(f, manifests), oneRoute("match: {prefix: /}, route: {cluster: c}")} {
		f.Add([]byte(text), "/a?q=%41", "x-user", "alice", "api.example.com")
	}
	f.Fuzz(func(t *testing.T, data []byte, path, name, value, authority string) {
		c, err := Load(data, "f.yaml", Options{Domain: "d"})
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error without text")
			}
			return
		}
		r := Request{Headers: []Header{{":method", value}, {":authority", authority}, {":path", path}, {name, value}}, RemoteAddress: value, Route: name}
		for _, result := range c.AppendDescriptors(nil, &r) {
			if result.Domain == "" || !strings.HasPrefix(result.Location, "f.yaml:") {
				t.Errorf("%+v", result)
			}
			for _, e := range result.Entries {
				if e.Key == "" {
					t.Errorf("%+v has no key", result)
				}
			}
		}
		for _, n := range c.Notes {
			if n.Text == "" || strings.ContainsAny(n.String(), "\x00\x1b\n") {
				t.Errorf("note %q", n)
			}
		}
	})
}
