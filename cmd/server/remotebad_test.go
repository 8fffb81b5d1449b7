package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestRemoteBadInput has a message for what is wrong with a command or its server.
func TestRemoteBadInput(t *testing.T) {
	dir := rules(t, "token", "swordfish\n", "empty", "\n", "two", "sword\nfish\n", "large", strings.Repeat("x", 5000), "ca.pem", "none")
	unauthorized := answering(t, http.StatusUnauthorized, "the token is missing or invalid\n").URL
	ok := answering(t, http.StatusOK, fromFile(t, "exception.json")).URL
	missing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is no exception x", http.StatusNotFound)
	})
	notThere := httptest.NewServer(missing)
	defer notThere.Close()
	except := func(args ...string) []string {
		return append([]string{"except", "add", "api", "user=alice", "--server=" + ok, "--for=1h", "--reason=why"}, args...)
	}
	for _, tt := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"nobody there", []string{"status", "--server=127.0.0.1:1"}, 2, "weir: cannot reach the server at http://127.0.0.1:1: connection refused; set --server to its debug port\n"},
		{"bad server", []string{"top", "--server=ftp://u:swordfish@weir"}, 2, "weir: --server ($WEIR_SERVER): invalid address; use host:port, http://host:port or https://host:port\n"},
		{"no token", []string{"denials", "--server=" + unauthorized}, 2, "weir: refused by the server at " + unauthorized + ": the token is missing or invalid; set --token-file to a file with its token\n"},
		{"wrong token", []string{"denials", "--server=" + unauthorized, "--token-file=" + dir + "/token"}, 2, "weir: refused by the server at " + unauthorized + ": the token is missing or invalid; it does not accept the token in --token-file\n"},
		{"token instead of a file", []string{"status", "--server=" + ok, "--token-file=swordfish-sword/fish"}, 2, "weir: --token-file ($WEIR_TOKEN_FILE): no such file or directory\n"},
		{"empty token file", []string{"status", "--server=" + ok, "--token-file=" + dir + "/empty"}, 2, "weir: --token-file ($WEIR_TOKEN_FILE): the file must contain one token\n"},
		{"bad authorities", []string{"status", "--server=" + ok, "--ca-file=" + dir + "/ca.pem"}, 2, "weir: --ca-file ($WEIR_CA_FILE): authorities " + dir + "/ca.pem: no PEM certificate\n"},
		{"bad descriptor", []string{"peek", "api", "user=alice,"}, 2, `weir: <descriptor>: "user=alice,": entry 2 has no key`},
		{"bad domain", []string{"peek", `api\`, "user=alice"}, 2, `weir: <domain>: "api\\": a backslash at the end, write \\ for one`},
		{"bad domain of a list", []string{"top", `\x`}, 2, `weir: [<domain>]: "\\x": \x needs two hexadecimal digits`},
		{"no descriptor", []string{"peek", "api"}, 2, "Usage: weir peek <domain> <descriptor>"},
		{"no effect", except(), 2, "weir: one of --allow, --deny and --amount is required\n"},
		{"bad amount", except("--amount=ten"), 2, `weir: --amount: "ten" is not a number; use 0.001x to 1000000x, such as 10x` + "\n"},
		{"bad duration", except("--allow", "--for=tomorrow"), 2, `weir: --for: expected duration but got "tomorrow"`},
		{"usage", except("--allow", "--for=1d"), 2, "Usage: weir except add --for=2h --reason=TEXT <domain> <descriptor>"},
		{"no such exception", []string{"except", "remove", "x", "--server=" + notThere.URL}, 1, "weir: not found by the server at " + notThere.URL + ": there is no exception x\n"},
		{"no command", []string{"except"}, 2, "Usage: weir except <command>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := call(t, tt.args...)
			compare(t, tt.code, nil, []string{tt.stderr}, code, stdout, stderr)
			if strings.Contains(stdout+stderr, "swordfish") {
				t.Errorf("the token is shown: %s%s", stdout, stderr)
			}
		})
	}
}

// TestRemoteByVariables asks the server of the environment, whose tokens are not shown.
func TestRemoteByVariables(t *testing.T) {
	dir := rules(t, "token", "swordfish\n")
	server := answering(t, http.StatusOK, fromFile(t, "quiet.json"))
	t.Setenv("WEIR_SERVER", server.URL)
	for _, name := range []string{"ADMIN_TOKEN_FILE", "WEIR_TOKEN_FILE"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, filepath.Join(dir, "token"))
			code, stdout, stderr := call(t, "top")
			compare(t, 0, []string{"Nothing has been denied"}, nil, code, stdout, stderr)
			request, _ := server.asked()
			if got := request.Header.Get("Authorization"); got != "Bearer swordfish" || strings.Contains(stdout+stderr, "swordfish") {
				t.Errorf("it sends %q and shows %s%s", got, stdout, stderr)
			}
		})
	}
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "ca.pem"), testenv.NewAuthority(t).PEM(), 0o600))
	server.next(fromFile(t, "exception.json"))
	_, stdout, _ := call(t, "except", "add", "api", "user=alice", "--amount=2.5", "--for=1h", "--reason=why", "--by=ops", "--token-file="+dir+"/token", "--ca-file="+dir+"/ca.pem")
	if want := "weir except remove 7f3a --token-file " + dir + "/token --ca-file " + dir + "/ca.pem\n"; !strings.HasSuffix(stdout, want) {
		t.Errorf("got\n%s\nwant at its end %s", stdout, want)
	}
	if _, body := server.asked(); !strings.Contains(body, `"effect":"amount","factor":2.5,"for":3600,`) {
		t.Errorf("it sends %s", body)
	}
}

// TestNameForAudit is that of the user, if none is given.
func TestNameForAudit(t *testing.T) {
	server := answering(t, http.StatusOK, fromFile(t, "reset.json"))
	for user, want := range map[string]string{"ops": `\?by=ops$`, "": `\?by=.`} {
		t.Setenv("USER", user)
		code, _, stderr := call(t, "reset", "api", "user=alice", "--server="+server.URL)
		if request, _ := server.asked(); code != 0 || !regexp.MustCompile(want).MatchString(request.URL.String()) {
			t.Errorf("USER=%q: it asks for %s\n%s", user, request.URL, stderr)
		}
	}
}
