package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// sent is a request to Envoy, for which "weir descriptors" predicts the descriptors.
type sent struct {
	method, authority, path string // by default GET, localhost and /
	headers                 []string
	from                    string // the address that Envoy trusts, by default 192.0.2.1
	added                   string // header that Envoy adds or changes when it reads the request
	done                    string // value of a descriptor that Envoy sends after the answer
}

// envoyRequests use every feature in e2e/testdata/descriptors.yaml.
var envoyRequests = []sent{
	{authority: "api.example.com"}, {authority: "API.Example.Com:8443"}, {authority: "www.example.com"},
	{authority: "x-v2.example.com"}, {authority: "-v2.example.com"}, {authority: "www.test"}, {authority: "www."},
	{authority: ".example.com"}, {authority: "tls.only"}, {authority: "nothing.test:1"}, {authority: "[2001:db8::1]:80"},
	{path: "/headers"}, {path: "/headers", headers: []string{"X-User: alice"}},
	{path: "/headers?a=%62", headers: []string{"x-plan: gold, silver", "x-user:"}, method: "POST"},
	{path: "/headers", headers: []string{"x-user: alice", "x-user: bob", "x-plan: a=b,c\\d"}, authority: "Some.Host:80"},
	{path: "/headers", headers: []string{"x-plan: \xff\xfeü", "x-user:   blanks \t"}},
	{path: "/address"}, {path: "/address", from: "10.20.30.40"}, {path: "/address", from: "2001:db8:1:2:3:4:5:6"},
	{path: "/address", from: "2001:0DB9::0001"}, {path: "/address", from: "255.255.255.255"}, {path: "/address", from: "::ffff:10.1.2.3"},
	{path: "/query"}, {path: "/query?q"}, {path: "/query?q="}, {path: "/query?q=a+b&r=xz"}, {path: "/query?q=a%20b&q=c"}, {path: "/query?r=%7a&q=%"},
	{path: "/query?q=Abc%2"}, {path: "/query?q=%zz%41&&=&r"}, {path: "/query?%71=a%20b"}, {path: "/query?q=a=b?c;d"}, {path: "/query?Q=x&r=%00%ff"},
	{path: "/match"}, {path: "/match", headers: []string{"x-a: One"}}, {path: "/match", headers: []string{"X-A: oNE"}, method: "POST"},
	{path: "/match", headers: []string{"x-a: 7"}}, {path: "/match", headers: []string{"x-a: -5"}}, {path: "/match", headers: []string{"x-a: 10"}},
	{path: "/match", headers: []string{"x-a: +3"}}, {path: "/match", headers: []string{"x-a:"}}, {path: "/match", headers: []string{"x-a: On"}},
	{path: "/match", headers: []string{"x-a: One", "x-a: Two"}}, {path: "/match", headers: []string{"x-a: Onward", "x-a: 7"}}, {path: "/match", headers: []string{"x-a: 99999999999999999999"}},
	{path: "/old"}, {path: "/old", headers: []string{"x-a: One"}}, {path: "/old", headers: []string{"x-a: Only"}},
	{path: "/clusters"}, {path: "/stages"}, {path: "/stages", from: "10.1.2.3", added: "x-envoy-internal: true"}, {path: "/stages", headers: []string{"x-envoy-internal: no"}, added: "x-envoy-internal:"},
	{path: "/override"}, {path: "/include"}, {path: "/ignore"}, {path: "/own"}, {path: "/specific", done: "done"}, {path: "/done", done: "then"}, {path: "/disabled"},
	{path: "/redirect"}, {path: "/direct"}, {path: "/cASE?x"}, {path: "/case/"},
	{path: "/separated"}, {path: "/separated/"}, {path: "/separated?x"}, {path: "/separatedness"},
	{path: "/abc/12?3"}, {path: "/abc/123"}, {path: "/ABC/12"},
	{path: "/by", headers: []string{"x-a: One"}}, {path: "/by?q=a%20b"}, {path: "/by?q=a+b"}, {path: "/by", headers: []string{`cookie: a=b; session=s1`}},
	{path: "/by", headers: []string{"cookie: session=x; session=s1"}}, {path: "/by", headers: []string{"cookie: session=x", "cookie: session=s1"}},
	{path: "/by", headers: []string{`cookie: session="s1"`}}, {path: "/by", headers: []string{"x-b: 1"}}, {path: "/by", headers: []string{"x-b: 1", "cookie: old=1"}},
	{path: "/by", headers: []string{"content-type: application/grpc+proto"}}, {path: "/by", headers: []string{"content-type: application/grpc"}},
	{path: "/by", headers: []string{"content-type: application/grpcx"}}, {path: "/by", headers: []string{"content-type: application/grpc;x"}}, {path: "/match", headers: []string{"x-a: Two", "x-b: 1", "x-a: One"}},
	{path: "/other"},
}

// The descriptors that "weir descriptors" prints are the descriptors that a real Envoy sends for
// the same requests, as Weir's decision log shows.
func TestDescriptorsOfEnvoy(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	const file = "e2e/testdata/descriptors.yaml"
	output(t, testenv.Envoy(t)+" --mode validate --log-level error -c "+file) // deprecated fields are allowed
	w := startWeir(t, writeRules(t, "domain: first\ndescriptors: [{key: generic_key, rate_limit: {unit: year, requests_per_unit: 1000}}]\n"),
		"DECISION_LOG=all", "DECISION_LOG_RATE=1000000")
	gateway := runEnvoy(t, gateway{example: file}.bootstrap(t, w.grpc))
	for i, r := range envoyRequests {
		r.send(t, gateway.addr)
		testenv.Until(t, "Envoy has sent "+r.done, func() bool {
			return r.done == "" || strings.Contains(w.output.String(), `"value":"`+r.done+`"`)
		})
		sent{path: fmt.Sprintf("/marker?n=%d", i)}.send(t, gateway.addr)
	}
	var asked [][]string
	testenv.Eventually(t, func() (err error) {
		asked, err = decidedDescriptors(w.output.String())
		return err
	})
	// Envoy ignores the hits_addend of a route's rate limits. A note of "weir descriptors" says so.
	for value, remaining := range map[string]int{"now": 999, "specific": 1000} {
		record := regexp.MustCompile(fmt.Sprintf(`"value":"%s".*"remaining":%d\b`, value, remaining))
		if !record.MatchString(w.output.String()) {
			t.Errorf("after %s, not %d are left", value, remaining)
		}
	}
	// The admin port shows the same configuration, with or without the filters.
	full, routes := gateway.dump(t, ""), gateway.dump(t, "?resource=static_route_configs")
	for i, r := range envoyRequests {
		wants := func(file string, options ...string) {
			testenv.EqualLists(t, r.foretold(t, file, options...), asked[i], "%s: %+v: what weir descriptors prints, and what Envoy sent", file, r)
		}
		wants(file)
		if i%4 == 0 {
			wants(full)
			if r.path == "/match" || r.path == "/headers" { // other paths depend on filters
				wants(routes, "--domain=first")
			}
		}
	}
}

// dump writes the configuration dump of Envoy's admin port to a file and returns its path.
func (e *envoy) dump(t *testing.T, query string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dump.json")
	testenv.Write(t, file, testenv.Must(fetch("http://"+e.admin+"/config_dump"+query))(t).body)
	return file
}

// send sends the request and reads the answer.
func (s sent) send(t *testing.T, addr string) {
	t.Helper()
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nhost: %s\r\nx-forwarded-for: %s\r\ncontent-length: 0\r\nconnection: close\r\n",
		cmp.Or(s.method, "GET"), cmp.Or(s.path, "/"), cmp.Or(s.authority, "localhost"), cmp.Or(s.from, "192.0.2.1"))
	for _, h := range s.headers {
		request += h + "\r\n"
	}
	answer := sendBytes(t, addr, request+"\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 2") && !strings.HasPrefix(answer, "HTTP/1.1 3") {
		t.Errorf("%+v: got %q", s, answer)
	}
}

// foretold returns the output of "weir descriptors" for the request, a line per descriptor.
func (s sent) foretold(t *testing.T, file string, options ...string) (lines []string) {
	t.Helper()
	args := []string{
		"descriptors", file, "--output=json", "--method=" + cmp.Or(s.method, "GET"), "--path=" + cmp.Or(s.path, "/"),
		"--authority=" + cmp.Or(s.authority, "localhost"), "--remote-address=" + cmp.Or(s.from, "192.0.2.1"),
	}
	args = append(args, options...)
	if s.added != "" {
		args = append(args, "--header="+s.added)
	}
	for _, h := range s.headers {
		args = append(args, "--header="+h)
	}
	cmd := exec.Command(program(t), args...)
	cmd.Dir, cmd.Stderr = testenv.Repository(t), os.Stderr
	out, err := cmd.Output()
	var failed *exec.ExitError
	if err != nil && (!errors.As(err, &failed) || failed.ExitCode() != 1) {
		t.Fatalf("weir %q: %v", args, err)
	}
	var answer struct {
		Descriptors []struct {
			Domain  string
			Entries []map[string]string
		}
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	for _, d := range answer.Descriptors {
		lines = append(lines, descriptorText(d.Domain, d.Entries))
	}
	return lines
}

// descriptorText returns the text of a descriptor for comparisons. If a value is not UTF-8,
// value_base64 has all its bytes, and value is dropped.
func descriptorText(domain string, entries []map[string]string) string {
	for _, e := range entries {
		if e["value_base64"] != "" {
			delete(e, "value")
		}
	}
	return fmt.Sprint(domain, " ", entries)
}

// decidedDescriptors returns the descriptors in a decision log for each of envoyRequests. In
// the log, a request for /marker follows each of them.
func decidedDescriptors(log string) (asked [][]string, err error) {
	var lines []string
	for line := range strings.Lines(log) {
		var record struct {
			Domain     string
			Descriptor *struct{ Entries []map[string]string }
		}
		if json.Unmarshal([]byte(line), &record) != nil || record.Descriptor == nil {
			continue
		}
		entries := record.Descriptor.Entries
		if len(entries) == 1 && entries[0]["key"] == "marker" {
			asked, lines = append(asked, lines), nil
			continue
		}
		lines = append(lines, descriptorText(record.Domain, entries))
	}
	if len(asked) < len(envoyRequests) {
		return nil, fmt.Errorf("%d requests are in the log", len(asked))
	}
	return asked, nil
}
