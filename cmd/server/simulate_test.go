package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	byUser    = "domain: api\nrate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}]\n"
	oncePer   = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n"
	userLines = `{"start_time":"2026-11-02T09:00:00Z","method":"GET","path":"/","x_user":"ann"}` + "\n" +
		`{"start_time":"2026-11-02T09:00:01Z","method":"GET","path":"/","x_user":"ann"}` + "\n"
)

func TestSimulate(t *testing.T) {
	dir := rules(t, "a.yaml", oncePer, "envoy.yaml", byUser, "access.log", userLines, "bad.log", "\x1b[31mno\n", "bad.yaml", "domain: api\ndescriptors: 3\n", "unknown.yaml",
		"domain: api\nrate_limits: [{actions: [{no_action: {}}]}]\n", "own.log", `{"ts":1700000000,"who":{"name":"eve"}}`)
	tests := []struct {
		name   string
		args   []string
		code   int
		stdout []string
		stderr []string
	}{
		{name: "text", args: []string{"a.yaml", "access.log"}, stdout: []string{"2 requests from 2026-11-02 09:00:00 to 2026-11-02 09:00:01 UTC, of which 1 (50 %) would be denied\n", "worst clients of api|user, 1 per hour\n  user=ann  1 denied\n"}},
		{name: "json", args: []string{"a.yaml", "access.log", "--output=json", "--suggest"}, stdout: []string{`"denied": 1,`, `"clients_denied_share": 0.01,` + "\n          \"amount\": 2\n"}},
		{name: "bad lines", args: []string{"a.yaml", "access.log", "bad.log"}, code: 2, stderr: []string{"weir: bad.log: no line can be read\nbad.log:1: it has no known format: \\x1b[31mno\n"}},
		{name: "fields", args: []string{"a.yaml", "own.log", "--fields=time=ts,header:x-user=who.name"}, stdout: []string{"1 requests from 2023-11-14 22:13:20", "user"}},
		{name: "unknown field", args: []string{"a.yaml", "own.log", "--fields=tine=ts"}, code: 2, stderr: []string{`weir: --fields: unknown name "tine" in "tine=ts", did you mean "time"?`}},
		{name: "compare", args: []string{"a.yaml", "access.log", "--compare=a.yaml"}, stdout: []string{"the old rules deny 1 requests\ndenied now, and not by the old rules: 0 requests\n"}},
		{name: "other format", args: []string{"a.yaml", "access.log", "--format=nginx"}, code: 2, stderr: []string{"no line can be read"}},
		{name: "unknown format", args: []string{"a.yaml", "access.log", "--format=apache"}, code: 2, stderr: []string{"--format must be one of"}},
		{name: "no log", args: []string{"a.yaml", "none.log"}, code: 2, stderr: []string{"weir: open none.log: no such file"}},
		{name: "no rules", args: []string{"none.yaml", "access.log"}, code: 2, stderr: []string{"none.yaml: no such file"}},
		{name: "bad rules", args: []string{"bad.yaml", "access.log"}, code: 2, stderr: []string{"weir: invalid rules:\nbad.yaml:2:14:"}},
		{name: "unknown action", args: []string{"a.yaml", "access.log", "--envoy=unknown.yaml"}, code: 2, stderr: []string{"unknown.yaml:2:", "no_action"}},
		{name: "no page", args: []string{"a.yaml", "access.log", "--html=."}, code: 2, stderr: []string{"weir: open .: is a directory"}},
		{name: "nothing", code: 2, stderr: []string{"Usage: weir simulate"}},
	}
	t.Chdir(dir)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"simulate", "--envoy=envoy.yaml"}, tt.args...)
			code, stdout, stderr := callUntil(t.Context(), args...)
			compare(t, tt.code, tt.stdout, tt.stderr, code, stdout, stderr)
		})
	}
}

// The page and the list of denied requests are written beside the report, whatever the log comes from.
func TestSimulateFiles(t *testing.T) {
	dir := rules(t, "a.yaml", oncePer, "envoy.yaml", byUser)
	page, denied := filepath.Join(dir, "page.html"), filepath.Join(dir, "denied")
	command := exec.Command(os.Args[0], "simulate", dir+"/a.yaml", "-", "--envoy="+dir+"/envoy.yaml", "--html="+page, "--denied="+denied)
	command.Env = append(os.Environ(), asProgram+"=1")
	command.Stdin = strings.NewReader(userLines)
	if out, err := command.CombinedOutput(); err != nil || strings.Contains(string(out), "\x1b") {
		t.Fatalf("%v:\n%s", err, out)
	}
	for file, want := range map[string]string{page: "<h2>api|user</h2>", denied: "stdin:2\tapi|user\t1 per hour\tuser=ann\n"} {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %v, %q", file, err, data)
		}
	}
}
