package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestRemoteBadInput has a message for what is wrong with a command or its server. None shows
// a token.
func TestRemoteBadInput(t *testing.T) {
	dir := rules(t, "token", "swordfish\n", "empty", "\n", "two", "sword\nfish\n", "large", strings.Repeat("x", 5000), "ca.pem", "none")
	unauthorized := answering(t, http.StatusUnauthorized, "the token is missing or invalid\n").URL
	ok := answering(t, http.StatusOK, fromFile(t, "exception.json")).URL
	notThere := answering(t, http.StatusNotFound, "there is no exception x\n").URL
	except := func(args ...string) []string {
		return append([]string{"except", "add", "api", "user=alice", "--server=" + ok, "--for=1h", "--reason=why"}, args...)
	}
	runCommands(t, nil, []commandTest{
		{name: "nobody there", args: []string{"status", "--server=127.0.0.1:1"}, code: 2, stderr: []string{"weir: cannot reach the server at http://127.0.0.1:1: connection refused; set --server to its debug port\n"}},
		{name: "bad server", args: []string{"top", "--server=ftp://u:swordfish@weir"}, code: 2, stderr: []string{"weir: --server ($WEIR_SERVER): invalid address; use host:port, http://host:port or https://host:port\n"}},
		{name: "no token", args: []string{"denials", "--server=" + unauthorized}, code: 2, stderr: []string{"weir: refused by the server at " + unauthorized + ": the token is missing or invalid; set --token-file to a file with its token\n"}},
		{name: "wrong token", args: []string{"denials", "--server=" + unauthorized, "--token-file=" + dir + "/token"}, code: 2, stderr: []string{"weir: refused by the server at " + unauthorized + ": the token is missing or invalid; it does not accept the token in --token-file\n"}},
		{name: "token instead of a file", args: []string{"status", "--server=" + ok, "--token-file=swordfish-sword/fish"}, code: 2, stderr: []string{"weir: --token-file ($WEIR_TOKEN_FILE): no such file or directory\n"}},
		{name: "empty token file", args: []string{"status", "--server=" + ok, "--token-file=" + dir + "/empty"}, code: 2, stderr: []string{"weir: --token-file ($WEIR_TOKEN_FILE): the file must contain one token\n"}},
		{name: "bad authorities", args: []string{"status", "--server=" + ok, "--ca-file=" + dir + "/ca.pem"}, code: 2, stderr: []string{"weir: --ca-file ($WEIR_CA_FILE): authorities " + dir + "/ca.pem: no PEM certificate\n"}},
		{name: "bad descriptor", args: []string{"peek", "api", "user=alice,"}, code: 2, stderr: []string{`weir: <descriptor>: "user=alice,": entry 2 has no key`}},
		{name: "bad domain", args: []string{"peek", `api\`, "user=alice"}, code: 2, stderr: []string{`weir: <domain>: "api\\": a backslash at the end, write \\ for one`}},
		{name: "bad domain of a list", args: []string{"top", `\x`}, code: 2, stderr: []string{`weir: [<domain>]: "\\x": \x needs two hexadecimal digits`}},
		{name: "no descriptor", args: []string{"peek", "api"}, code: 2, stderr: []string{"Usage: weir peek <domain> <descriptor>"}},
		{name: "no effect", args: except(), code: 2, stderr: []string{"weir: one of --allow, --deny and --amount is required\n"}},
		{name: "bad amount", args: except("--amount=ten"), code: 2, stderr: []string{`weir: --amount: "ten" is not a number; use 0.001x to 1000000x, such as 10x` + "\n"}},
		{name: "bad duration", args: except("--allow", "--for=tomorrow"), code: 2, stderr: []string{`weir: --for: expected duration but got "tomorrow"`}},
		{name: "usage", args: except("--allow", "--for=1d"), code: 2, stderr: []string{"Usage: weir except add --for=2h --reason=TEXT <domain> <descriptor>"}},
		{name: "no such exception", args: []string{"except", "remove", "x", "--server=" + notThere}, code: 1, stderr: []string{"weir: not found by the server at " + notThere + ": there is no exception x\n"}},
		{name: "no command", args: []string{"except"}, code: 2, stderr: []string{"Usage: weir except <command>"}},
	})
}

// TestRemoteByVariables asks the server of the environment, whose tokens are not shown.
func TestRemoteByVariables(t *testing.T) {
	dir := rules(t, "token", "swordfish\n", "ca.pem", string(testenv.NewAuthority(t).PEM()))
	server := answering(t, http.StatusOK, fromFile(t, "quiet.json"))
	t.Setenv("WEIR_SERVER", server.URL)
	for _, name := range []string{"ADMIN_TOKEN_FILE", "WEIR_TOKEN_FILE"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, dir+"/token")
			code, stdout, stderr := call(t, "top")
			compare(t, 0, []string{"Nothing has been denied"}, nil, code, stdout, stderr)
			if server.token != "Bearer swordfish" || strings.Contains(stdout+stderr, "swordfish") {
				t.Errorf("it sends %q and shows %s%s", server.token, stdout, stderr)
			}
		})
	}
	server.answer = fromFile(t, "exception.json")
	code, stdout, stderr := call(t, "except", "add", "api", "user=alice", "--amount=2.5", "--for=1h", "--reason=why", "--by=ops", "--token-file="+dir+"/token", "--ca-file="+dir+"/ca.pem")
	compare(t, 0, []string{"weir except remove 7f3a --token-file " + dir + "/token --ca-file " + dir + "/ca.pem\n"}, nil, code, stdout, stderr)
	if !strings.Contains(server.body, `"effect":"amount","factor":2.5,"for":3600,`) {
		t.Errorf("it sends %s", server.body)
	}
	for user, want := range map[string]string{"ops": `\?by=ops$`, "": `\?by=.`} { // for the audit log, if no --by is given
		t.Setenv("USER", user)
		call(t, "except", "remove", "7f3a")
		if !regexp.MustCompile(want).MatchString(server.asked) {
			t.Errorf("USER=%q: it asks for %s", user, server.asked)
		}
	}
}
