package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestRemoteBadInput checks the messages for invalid commands and failing servers. None of
// them shows a token.
func TestRemoteBadInput(t *testing.T) {
	dir := rules(t, "empty", "\n", "ca.pem", "none")
	ok := answering(t, http.StatusOK, testenv.Read(t, "testdata/remote/exception.json")).URL
	notThere := answering(t, http.StatusNotFound, "there is no exception x\n").URL
	except := func(args ...string) []string {
		return append([]string{"except", "add", "api", "user=alice", "--server=" + ok, "--for=1h", "--reason=why"}, args...)
	}
	runCommands(t, nil, []commandTest{
		{name: "nobody there", args: []string{"status", "--server=127.0.0.1:1"}, code: 2, stderr: []string{"weir: cannot reach the server at http://127.0.0.1:1: connection refused; set --server to its debug port\n"}},
		{name: "bad server", args: []string{"top", "--server=ftp://u:swordfish@weir"}, code: 2, stderr: []string{"weir: --server ($WEIR_SERVER): invalid address; use host:port, http://host:port or https://host:port\n"}},
		{name: "token instead of a file", args: []string{"status", "--server=" + ok, "--token-file=swordfish-sword/fish"}, code: 2, stderr: []string{"weir: --token-file ($WEIR_TOKEN_FILE): no such file or directory\n"}},
		{name: "empty token file", args: []string{"status", "--server=" + ok, "--token-file=" + dir + "/empty"}, code: 2, stderr: []string{"weir: --token-file ($WEIR_TOKEN_FILE): the file must contain one token\n"}},
		{name: "bad authorities", args: []string{"status", "--server=" + ok, "--ca-file=" + dir + "/ca.pem"}, code: 2, stderr: []string{"weir: --ca-file ($WEIR_CA_FILE): authorities " + dir + "/ca.pem: no PEM certificate\n"}},
		{name: "bad domain", args: []string{"peek", `api\`, "user=alice"}, code: 2, stderr: []string{`weir: <domain>: "api\\": a backslash at the end, write \\ for one`}},
		{name: "bad domain of a list", args: []string{"top", `\x`}, code: 2, stderr: []string{`weir: [<domain>]: "\\x": \x needs two hexadecimal digits`}},
		{name: "no effect", args: except(), code: 2, stderr: []string{"weir: one of --allow, --deny and --amount is required\n"}},
		{name: "bad amount", args: except("--amount=ten"), code: 2, stderr: []string{`weir: --amount: "ten" is not a number; use 0.001x to 1000000x, such as 10x` + "\n"}},
		{name: "bad duration", args: except("--allow", "--for=tomorrow"), code: 2, stderr: []string{`weir: --for: "tomorrow" is not a duration; use a number and a unit`}},
		{name: "usage", args: except("--allow", "--for=1w"), code: 2, stderr: []string{"Usage: weir except add --reason=TEXT <domain> <descriptor>"}},
		{name: "no end", args: append(except("--allow")[:5:5], "--allow", "--reason=why"), code: 2, stderr: []string{"weir: one of --for and --until is required\n"}},
		{name: "two ends", args: except("--allow", "--until=2026-11-30T08:00"), code: 2, stderr: []string{"--for and --until can't be used together"}},
		{name: "bad time", args: append(except("--allow")[:5:5], "--allow", "--reason=why", "--until=monday"), code: 2, stderr: []string{`weir: --until: "monday" is not a time; use a form such as 2026-11-30T08:00`}},
		{name: "nothing to assign", args: []string{"assign", "api", "tenant=a", "--server=" + ok}, code: 2, stderr: []string{"weir: a domain, a descriptor and either an amount or --remove are required, or --file\n"}},
		{name: "negative amount", args: []string{"assign", "api", "tenant=a", "-5", "--server=" + ok}, code: 2, stderr: []string{"weir: -5 is not an amount; use a whole number, +N or unlimited\n"}},
		{name: "prune without a file", args: []string{"assign", "api", "tenant=a", "5", "--prune", "--server=" + ok}, code: 2, stderr: []string{"weir: --prune needs --file\n"}},
		{name: "no such exception", args: []string{"except", "remove", "x", "--server=" + notThere}, code: 1, stderr: []string{"weir: not found by the server at " + notThere + ": there is no exception x\n"}},
		{name: "no command", args: []string{"except"}, code: 2, stderr: []string{"Usage: weir except <command>"}},
	})
}

// TestRemoteByVariables takes the server and the token from the environment. No output shows
// the token.
func TestRemoteByVariables(t *testing.T) {
	dir := rules(t, "token", "swordfish\n", "ca.pem", string(testenv.NewAuthority(t).PEM()))
	server := answering(t, http.StatusOK, testenv.Read(t, "testdata/remote/quiet.json"))
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
	server.answer = testenv.Read(t, "testdata/remote/exception.json")
	code, stdout, stderr := call(t, "except", "add", "api", "user=alice", "--amount=2.5", "--for=1h", "--reason=why", "--by=ops", "--token-file="+dir+"/token", "--ca-file="+dir+"/ca.pem")
	compare(t, 0, []string{"weir except remove 7f3a --token-file " + dir + "/token --ca-file " + dir + "/ca.pem\n"}, nil, code, stdout, stderr)
	testenv.Contains(t, server.body, `"effect":"amount","factor":2.5,"for":3600,`)
	for user, want := range map[string]string{"ops": `\?by=ops$`, "": `\?by=.`} { // the default of --by
		t.Setenv("USER", user)
		call(t, "except", "remove", "7f3a")
		if !regexp.MustCompile(want).MatchString(server.asked) {
			t.Errorf("USER=%q: it asks for %s", user, server.asked)
		}
	}
}

// TestOperate checks that a real server refuses changes without the token, that no output
// shows the token, and that commands use no proxy. Package e2e tests the work of operators.
func TestOperate(t *testing.T) {
	dir := rules(t, "a.yaml", good, "token", "swordfish-swordfish-swordfish-swordfish\n", "other", "trout-trout-trout-trout\n")
	log := start(t, inProcess(append(local[:len(local):len(local)], "--config="+dir+"/a.yaml", "--admin-token-file="+dir+"/token")...))
	log.WaitFor(t, "msg=listening")
	t.Setenv("WEIR_SERVER", addresses(log)["debug"])
	for _, name := range []string{"http_proxy", "https_proxy"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	add := []string{"except", "add", "apii", "user=alice", "--deny", "--for=1h", "--reason=typo", "--by=ops"}
	runCommands(t, nil, []commandTest{
		{name: "no token", args: add, code: 2, stderr: []string{"weir: refused by the server at ", "; set --token-file to a file with its token\n"}},
		{name: "wrong token", args: append(add, "--token-file="+dir+"/other"), code: 2, stderr: []string{"; it does not accept the token in --token-file\n"}},
	})
	t.Setenv("WEIR_TOKEN_FILE", dir+"/token")
	runCommands(t, nil, []commandTest{
		{name: "nothing was added", args: []string{"except", "list"}, stdout: []string{"There are no exceptions"}},
		{name: "add", args: add, stdout: []string{"deny apii user=alice until "}, stderr: []string{"note: there are no rules for the domain \"apii\", did you mean \"api\"?\n"}},
		{name: "add for an unknown key", args: []string{"except", "add", "api", "usr=alice", "--deny", "--for=1h", "--reason=typo"}, stdout: []string{"deny api usr=alice until "}, stderr: []string{"note: no rule of the domain has the key \"usr\", did you mean \"user\"?\n"}},
		{name: "denials of an unknown domain", args: []string{"denials", "apii"}, stdout: []string{"No recent denials"}, stderr: []string{"note: there are no rules for the domain \"apii\", did you mean \"api\"?\n"}},
		{name: "denials of an unknown key", args: []string{"denials", "api", "usr=alice"}, stdout: []string{"No recent denials"}, stderr: []string{"note: no rule of the domain has the key \"usr\", did you mean \"user\"?\n"}},
		{name: "denials of a known key", args: []string{"denials", "api", "user=alice"}, stdout: []string{"No recent denials"}},
		{name: "peek without a rule", args: []string{"peek", "api", "usr=alice"}, code: 1, stdout: []string{"usr=alice  matches nothing", "below the domain nothing matches usr=alice (did you mean user=alice?)", "There are: user\n"}},
		{name: "hostile", args: []string{"peek", "api", `user=\x1b[31m\x00\xff`}, stdout: []string{`'user=\x1b[31m\x00\xff'`, "0 of 3"}},
	})
	_, added, _ := call(t, "except", "list", "--output=json")
	id := regexp.MustCompile(`"id": "(\w+)"`).FindStringSubmatch(added)
	if id == nil {
		t.Fatalf("no exception in %s", added)
	}
	runCommands(t, []string{"except", "remove", id[1]}, []commandTest{
		{name: "remove", stdout: []string{"removed."}},
		{name: "remove again", code: 1, stderr: []string{"weir: not found by the server at "}},
	})
}
