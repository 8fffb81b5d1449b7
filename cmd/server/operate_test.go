package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// operated is a real server that operators ask, and the program that asks it.
type operated struct {
	t           *testing.T
	http, debug string // addresses
}

// operate starts a server with rules of a file.
func operate(t *testing.T, text string, args ...string) *operated {
	t.Helper()
	command := inProcess(append(append(local[:len(local):len(local)], "--config="+rules(t, "a.yaml", text)), args...)...)
	command.Env = append(command.Env, "DRAIN_TIMEOUT=100ms")
	log := start(t, command)
	log.WaitFor(t, "msg=listening")
	at := addresses(log)
	return &operated{t, at["http"], at["debug"]}
}

// request asks for a unit of a user, and returns the status of HTTP.
func (o *operated) request(user string) int {
	o.t.Helper()
	body := `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"` + user + `"}]}]}`
	response, err := http.Post("http://"+o.http+"/json", "application/json", strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// weir runs a command in a process of its own, with proxies that are not there, and
// compares its exit code and what it prints with patterns.
func (o *operated) weir(wantCode int, args string, want ...string) string {
	o.t.Helper()
	command := exec.Command("/bin/sh", "-c", `"$0" `+args, os.Args[0])
	command.Env = append(os.Environ(), asProgram+"=1", "TZ=UTC", "USER=ops", "WEIR_SERVER="+o.debug, "http_proxy=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1")
	out, err := command.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		o.t.Fatal(err)
	}
	if code := command.ProcessState.ExitCode(); code != wantCode {
		o.t.Errorf("weir %s: exit code %d, want %d\n%s", args, code, wantCode, out)
	}
	for _, pattern := range want {
		if !regexp.MustCompile(pattern).Match(out) {
			o.t.Errorf("weir %s printed\n%s\nwant %s", args, out, pattern)
		}
	}
	return string(out)
}

const threeAYear = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: year, requests_per_unit: 3}\n"

// TestOperate asks a real server for what it knows of a user who is denied, and changes
// nothing without the token, which no output shows. e2e has the days of operators.
func TestOperate(t *testing.T) {
	dir := rules(t, "token", "swordfish-swordfish-swordfish-swordfish\n", "other", "trout-trout-trout-trout\n")
	o := operate(t, threeAYear, "--admin-token-file="+dir+"/token")
	for n := range 5 {
		if code := o.request("alice"); (code == http.StatusOK) != (n < 3) {
			t.Fatalf("request %d: got %d", n, code)
		}
	}
	out := o.weir(2, "reset api user=alice", `refused by the server at .*; set --token-file to a file with its token\n`) +
		o.weir(2, "reset api user=alice --token-file "+dir+"/other", `refused by the server at .*; it does not accept the token in --token-file\n`)
	t.Setenv("WEIR_TOKEN_FILE", dir+"/token")
	out += o.weir(0, "status", `health +OK\n`, `rules +1 rule in 1 domain from \S+\n +loaded at .* ago\), files: 1\n`)
	out += o.weir(0, "top api --this --window minute", `domain api, rule \S*user \(\S+a\.yaml:3:5\)`, `3 per year: 2 denied`, `2 +\d\d:\d\d:\d\d \(\d+ m?s\) +\d\d:\d\d:\d\d +user=alice\n`, `weir peek api user=alice\n`)
	out += o.weir(0, "denials api user=alice -n 1", `\n\d\d:\d\d:\d\d +.* 3 per year +\S+a\.yaml:3:5 +api user=alice\n\n`)
	out += o.weir(0, "denials --output json", `"retry_after":`)
	out += o.weir(0, "peek api user=alice", `3 per year +3 of 3 +0 +in \d+`, `weir except add api user=alice --amount 10x`)
	out += o.weir(0, "reset api user=alice", `Set 1 counter to zero\.`, `0 of 3 +3 +now`)
	out += o.weir(0, `peek api 'user=\x1b[31m\x00\xff'`, `descriptor 'user=\\x1b\[31m\\x00\\xff'`, `0 of 3`)
	added := o.weir(0, `except add api user=alice --deny --for 1h --reason "abuse, see chat"`, `deny api user=alice until .* \((60 min|1 h) left\)`)
	if alice, bob := o.request("alice"), o.request("bob"); alice != http.StatusTooManyRequests || bob != http.StatusOK {
		t.Errorf("alice, who is denied by an exception, gets %d, bob %d", alice, bob)
	}
	out += o.weir(0, "except list", `1 exception, used on this server`, `deny .* 1 +ops +api user=alice\n`, `abuse, see chat\n`)
	out += o.weir(0, "peek api user=alice", `exception \S+ deny until`, `requests are denied`, `3 per year +0 of 3 +- +denied `)
	remove := regexp.MustCompile(`weir (except remove .*)\n`).FindStringSubmatch(added)
	if remove == nil {
		t.Fatalf("no command removes it: %s", added)
	}
	out += o.weir(0, remove[1], `removed\.`) + o.weir(1, remove[1], `weir: not found by the server at \S+: `)
	out += o.weir(0, `except add apii user=alice --deny --for 1s --reason typo`, `note: no rule has the domain apii, did you mean api\?\n`, `deny apii user=alice until`)
	if code := o.request("alice"); code != http.StatusOK || strings.Contains(out, "swordfish") {
		t.Errorf("after the exception: got %d, or the token is shown in %s", code, out)
	}
}
