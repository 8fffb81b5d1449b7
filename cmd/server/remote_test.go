package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"weir/internal/descriptors/plaintext"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// recorded is a server on a real port that replays a recorded answer and keeps the last
// request. It handles one request at a time.
type recorded struct {
	*httptest.Server
	code        int
	answer      string
	asked, body string // method and URL of the last request, and its body
	token       string
}

func answering(t *testing.T, code int, answer string) *recorded {
	t.Helper()
	r := &recorded{code: code, answer: answer}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *recorded) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.asked, r.body, r.token = request.Method+" "+request.URL.RequestURI(), string(body), request.Header.Get("Authorization")
	w.Header().Set("Date", "Sat, 01 Aug 2026 03:07:10 GMT")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.code)
	fmt.Fprint(w, r.answer)
}

// remoteCases are commands with the file that contains their output.
var remoteCases = []struct {
	golden, answer string
	args           []string
	code           int
	asked          string // method and path
	body           string // of the request
	wide           bool   // a line may exceed 100 columns
}{
	{golden: "status", answer: "status", args: []string{"status"}, asked: "GET /status", wide: true},
	{golden: "status_failing", answer: "failing", args: []string{"status"}, code: 1, asked: "GET /status", wide: true},
	{golden: "status_starting", answer: "starting", args: []string{"status"}, asked: "GET /status", wide: true},
	{golden: "top", answer: "denials", args: []string{"top"}, asked: "GET /denials?servers=all&descriptor=&domain="},
	{golden: "top_minute_this", answer: "denials", args: []string{"top", "--window=minute", "--this"}, asked: "GET /denials?servers=this&descriptor=&domain="},
	{golden: "top_domain", answer: "denials", args: []string{"top", "login pages"}, asked: "GET /denials?servers=all&descriptor=&domain=login+pages"},
	{golden: "top_quiet", answer: "quiet", args: []string{"top"}, asked: "GET /denials?servers=all&descriptor=&domain="},
	{golden: "top_hostile", answer: "hostile", args: []string{"top"}, asked: "GET /denials?servers=all&descriptor=&domain=", wide: true},
	{golden: "denials", answer: "denials", args: []string{"denials"}, asked: "GET /denials?servers=all&descriptor=&domain=", wide: true},
	{golden: "denials_few", answer: "denials", args: []string{"denials", "api", "-n", "1", "--this"}, asked: "GET /denials?servers=this&descriptor=&domain=api", wide: true},
	{golden: "denials_hashed", answer: "denials", args: []string{"denials", "api", "tenant=alice"}, asked: "GET /denials?servers=all&descriptor=tenant%3Dalice&domain=api", wide: true},
	{golden: "denials_shared", answer: "denials", args: []string{"denials", "login pages", "path=/login/a,ip=203.0.113.9"}, asked: "GET /denials?servers=all&descriptor=path%3D%2Flogin%2Fa%2Cip%3D203.0.113.9&domain=login+pages", wide: true},
	{golden: "denials_cut", answer: "hostile", args: []string{"denials", `a'p\x1bi`, "user=abc"}, asked: "GET /denials?servers=all&descriptor=user%3Dabc&domain=a%27p%1Bi", wide: true},
	{golden: "denials_quiet", answer: "quiet", args: []string{"denials"}, asked: "GET /denials?servers=all&descriptor=&domain="},
	{golden: "denials_hostile", answer: "hostile", args: []string{"denials"}, asked: "GET /denials?servers=all&descriptor=&domain=", wide: true},
	{golden: "peek", answer: "peek", args: []string{"peek", "api", "user=alice"}, asked: "POST /peek?servers=all", body: `{"domain":"api","entries":[{"key":"user","value":"alice"}]}`, wide: true},
	{golden: "peek_excepted", answer: "excepted", args: []string{"peek", "api", "user=alice"}, asked: "POST /peek?servers=all"},
	{golden: "peek_whitelist", answer: "whitelist", args: []string{"peek", "api", "user=alice"}, asked: "POST /peek?servers=all"},
	{golden: "peek_none", answer: "none", args: []string{"peek", "api", "user=alice"}, code: 1, asked: "POST /peek?servers=all"},
	{golden: "reset", answer: "reset", args: []string{"reset", "api", "user=alice", "--by=ops team"}, asked: "POST /reset?by=ops+team", body: `{"domain":"api","entries":[{"key":"user","value":"alice"}]}`},
	{golden: "peek_none", answer: "none", args: []string{"reset", "api", "user=alice", "--by=ops"}, code: 1, asked: "POST /reset?by=ops"},
	{golden: "except_add", answer: "exception", args: []string{"except", "add", "api", "user=alice", "--deny", "--for=3h", "--reason=abuse, see chat", "--by=ops"}, asked: "POST /exceptions",
		body: `{"domain":"api","entries":[{"key":"user","value":"alice"}],"effect":"deny","for":10800,"by":"ops","reason":"abuse, see chat"}`},
	{golden: "except_add", answer: "exception", args: []string{"except", "add", "api", "user=alice", "--deny", "--for=1d", "--reason=abuse, see chat", "--by=ops"}, asked: "POST /exceptions",
		body: `{"domain":"api","entries":[{"key":"user","value":"alice"}],"effect":"deny","for":86400,"by":"ops","reason":"abuse, see chat"}`},
	{golden: "except_list", answer: "exceptions", args: []string{"except", "list"}, asked: "GET /exceptions?servers=all", wide: true},
	{golden: "except_list_domain", answer: "exceptions", args: []string{"except", "list", "api", "--this"}, asked: "GET /exceptions?servers=this", wide: true},
	{golden: "except_list_none", answer: "no_exceptions", args: []string{"except", "list"}, asked: "GET /exceptions?servers=all"},
	{golden: "assign", answer: "assigned_once", args: []string{"assign", "api", "tenant=acme", "+1000", "--id=pay 1", "--by=ops"}, asked: "POST /assigned?by=ops", body: `{"domain":"api","descriptor":"tenant=acme","amount":"1000","id":"pay 1"}`},
	{golden: "assign", answer: "assigned_once", args: []string{"assign", "api", "tenant=acme", "5000", "--limit=day", "--note=c", "--by=ops"}, asked: "PUT /assigned?by=ops", body: `{"domain":"api","descriptor":"tenant=acme","limit":"day","amount":"5000","note":"c"}`},
	{golden: "assign", answer: "assigned_once", args: []string{"assign", "api", "tenant=acme", "--remove", "--by=ops"}, asked: "DELETE /assigned?by=ops", body: `{"domain":"api","descriptor":"tenant=acme"}`},
	{golden: "assign_file", answer: "assigned_changes", args: []string{"assign", "--file=testdata/remote/assigned.csv", "--prune", "--by=ops"}, code: 1, asked: "PUT /assigned?by=ops&prune=true&yes=false", body: "api,tenant=acme,,5000,contract 4711\n", wide: true},
	{golden: "assigned", answer: "assigned", args: []string{"assigned", "tenant=", "--domain=api"}, asked: "GET /assigned?domain=api&n=100&prefix=tenant%3D", wide: true},
	{golden: "except_remove", answer: "exception", args: []string{"except", "remove", "7f3a", "--by=ops"}, asked: "DELETE /exceptions/7f3a?by=ops"},
}

// TestRemoteCommands checks the requests of commands, and compares their output with files.
func TestRemoteCommands(t *testing.T) {
	for _, tt := range remoteCases {
		t.Run(tt.golden, func(t *testing.T) {
			answer := testenv.Read(t, "testdata/remote/"+tt.answer+".json")
			server := answering(t, http.StatusOK, answer)
			code, stdout, stderr := call(t, append(tt.args, "--server="+server.URL)...)
			if code != tt.code || stderr != "" {
				t.Errorf("exit code %d, stderr %s", code, stderr)
			}
			if server.asked != tt.asked || tt.body != "" && server.body != tt.body {
				t.Errorf("it asks %s %s, want %s %s", server.asked, server.body, tt.asked, tt.body)
			}
			stdout = strings.ReplaceAll(stdout, server.URL, "http://HOST:PORT")
			testenv.Golden(t, "testdata/remote/"+tt.golden+".txt", stdout)
			if plaintext.Lines(stdout) != stdout || !utf8.ValidString(stdout) {
				t.Errorf("a terminal may obey %q", stdout)
			}
			for line := range strings.Lines(stdout) {
				if !tt.wide && !strings.Contains(line, ": weir ") && utf8.RuneCountInString(line) > 101 {
					t.Errorf("more than 100 columns: %s", line)
				}
			}

			// As JSON, commands print the server's answer, unless they filter it.
			code, stdout, stderr = call(t, append(tt.args, "--server="+server.URL, "--output=json")...)
			if code != tt.code || stderr != "" || plaintext.Lines(stdout) != stdout || !strings.Contains(stdout, "\n  \"") {
				t.Errorf("exit code %d, stderr %s, or not indented, or a terminal may obey %q", code, stderr, stdout)
			}
			var got, want any
			testenv.OK(t, errors.Join(json.Unmarshal([]byte(stdout), &got), json.Unmarshal([]byte(answer), &want)))
			filtered := tt.args[0] == "denials" || slices.Contains(tt.args, "login pages") || tt.golden == "except_list_domain" || tt.golden == "except_remove"
			if !filtered && !reflect.DeepEqual(got, want) {
				t.Errorf("got %v of %v", got, want)
			}
			if tt.golden == "denials_hashed" && strings.Contains(stdout, "bob smith") {
				t.Errorf("it shows other descriptors: %s", stdout)
			}
		})
	}
}

// An exception may end at a time in this machine's time zone.
func TestExceptUntil(t *testing.T) {
	server := answering(t, http.StatusOK, testenv.Read(t, "testdata/remote/exception.json"))
	until := time.Now().Add(25 * time.Hour).Truncate(time.Minute)
	code, _, stderr := call(t, "except", "add", "api", "user=alice", "--allow", "--reason=why", "--until="+until.Format("2006-01-02T15:04"), "--server="+server.URL)
	var sent plan.Exception
	testenv.OK(t, json.Unmarshal([]byte(server.body), &sent))
	if left := time.Until(until).Seconds(); code != exitOK || sent.For < left || sent.For > left+60 {
		t.Errorf("exit code %d, for %v, want %v\n%s", code, sent.For, left, stderr)
	}
}

// TestPastedDescriptor lets a shell parse the descriptors that denials prints. Commands with
// these arguments ask for exactly the denied descriptors.
func TestPastedDescriptor(t *testing.T) {
	shell := testenv.Shell(t)
	server := answering(t, http.StatusOK, testenv.Read(t, "testdata/remote/hostile.json"))
	_, stdout, _ := call(t, "denials", "--server="+server.URL)
	server.answer = testenv.Read(t, "testdata/remote/none.json")
	var asked []string
	for _, row := range regexp.MustCompile(`(?m)^[0-9:]{8}  \S.*  ('a\S*' '.*')$`).FindAllStringSubmatch(stdout, -1) {
		words := testenv.Must(exec.Command(shell, "-c", "printf '%s\n' "+row[1]).Output())(t)
		call(t, slices.Concat([]string{"peek", "--server=" + server.URL}, strings.Split(strings.TrimSpace(string(words)), "\n"))...)
		var d plan.JSONDescriptor
		testenv.OK(t, json.Unmarshal([]byte(server.body), &d))
		domain, entries := d.Bytes()
		testenv.Equal(t, domain, "a'p\x1bi", "domain for which %s asks", row[1])
		asked = append(asked, fmt.Sprintf("%q", entries))
	}
	want := []string{
		`[{"user" "\x1b[31mred\x1b[0m\n\x00"}]`, `[{"user" "\xff\xfe'; rm -rf /"}]`,
		`[{"user" "<script>alert(1)</script>"} {"-x=,\\" "\u202egnp"}]`,
	}
	testenv.EqualLists(t, asked, want, "descriptors pasted from\n%s", stdout)
}
