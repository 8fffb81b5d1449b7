package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
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
	t.Chdir(dir)
	runCommands(t, []string{"simulate", "--envoy=envoy.yaml"}, []commandTest{
		{name: "text", args: []string{"a.yaml", "access.log"}, stdout: []string{"2 requests from 2026-11-02 09:00:00 to 2026-11-02 09:00:01 UTC, of which 1 (50 %) would be denied\n", "most denied clients of api|user, 1 per hour\n  user=ann  1 denied\n"}},
		{name: "standard input", stdin: userLines, args: []string{"a.yaml", "-", "--denied=/dev/stdout"}, stdout: []string{"2 requests from ", "stdin:2\tapi|user\t1 per hour\tuser=ann\n"}, absent: "\x1b"},
		{name: "json", args: []string{"a.yaml", "access.log", "--output=json", "--suggest"}, stdout: []string{`"denied": 1,`, `"clients_denied_share": 0.01,` + "\n          \"amount\": 2\n"}},
		{name: "bad lines", args: []string{"a.yaml", "access.log", "bad.log"}, code: 2, stderr: []string{"weir: bad.log: no readable line\nbad.log:1: unknown format: \\x1b[31mno\n"}},
		{name: "fields", args: []string{"a.yaml", "own.log", "--fields=time=ts,header:x-user=who.name"}, stdout: []string{"1 requests from 2023-11-14 22:13:20", "user"}},
		{name: "unknown field", args: []string{"a.yaml", "own.log", "--fields=tine=ts"}, code: 2, stderr: []string{`weir: --fields: unknown name "tine" in "tine=ts", did you mean "time"?`}},
		{name: "compare", args: []string{"a.yaml", "access.log", "--compare=a.yaml"}, stdout: []string{"the old rules deny 1 requests\ndenied only by the new rules: 0 requests\n"}},
		{name: "no rules", args: []string{"none.yaml", "access.log"}, code: 2, stderr: []string{"none.yaml: no such file"}},
		{name: "bad rules", args: []string{"bad.yaml", "access.log"}, code: 2, stderr: []string{"weir: invalid rules:\nbad.yaml:2:14:"}},
		{name: "unknown action", args: []string{"a.yaml", "access.log", "--envoy=unknown.yaml"}, code: 2, stderr: []string{"unknown.yaml:2:", "no_action"}},
		{name: "no page", args: []string{"a.yaml", "access.log", "--html=."}, code: 2, stderr: []string{"weir: open .: is a directory"}},
		{name: "fields of text", args: []string{"a.yaml", "access.log", "--format=nginx", "--fields=time=ts"}, code: 2, stderr: []string{"weir: --fields applies to JSON lines only, but --format is nginx\n"}},
		{name: "standard input twice", args: []string{"a.yaml", "-", "--envoy=-"}, code: 2, stderr: []string{"weir: the standard input (-) can be read only once\n"}},
		{name: "no directory", args: []string{"a.yaml", "access.log", "--denied=none/denied"}, code: 2, stderr: []string{"weir: open none/denied: no such file or directory\n"}},
	})
}

// The report covers a damaged log up to the damage. It begins with a warning, and an error follows the report.
func TestSimulateCutLog(t *testing.T) {
	dir := rules(t, "a.yaml", oncePer, "envoy.yaml", byUser)
	t.Chdir(dir)
	log := []byte(testenv.Gzip(t, userLines))
	testenv.Write(t, "cut.gz", string(log[:len(log)-8]))
	log[len(log)-6] ^= 1 // a byte of the checksum
	testenv.Write(t, "corrupt.gz", string(log))
	for log, why := range map[string]string{"cut.gz": "after line 2: unexpected EOF", "corrupt.gz": "after line 2: gzip: invalid checksum"} {
		why = log + ": " + why + "; the rest of the log is not in this report"
		for output, first := range map[string]string{"text": "warning: " + why, "json": "{\n  \"warnings\": [\n    \"" + why} {
			code, stdout, stderr := call(t, "simulate", "a.yaml", log, "--envoy=envoy.yaml", "--output="+output, "--html=page", "--denied=denied")
			if code != exitUsage || !strings.HasPrefix(stdout, first) || stderr != "weir: "+why+"\n" {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
			for file, want := range map[string]string{"page": why, "denied": log + ":2\tapi|user"} {
				if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), want) || os.Remove(file) != nil {
					t.Errorf("%s: %v, %q", file, err, data)
				}
			}
		}
	}
}

// Output files are written last, must differ from the inputs and from each other, and stay
// unchanged if there is no report. No temporary file remains.
func TestSimulateKeepsFiles(t *testing.T) {
	dir := rules(t, "a.yaml", oncePer, "envoy.yaml", byUser, "access.log", userLines, "bad.log", "no\n", "old", "before\n")
	t.Chdir(dir)
	testenv.OK(t, errors.Join(os.Symlink("access.log", "link"), os.Mkdir("rules", 0o700), os.WriteFile("rules/r.yaml", []byte(oncePer), 0o600), os.Chmod("old", 0o640), os.Symlink("old", "linked")))
	runCommands(t, []string{"simulate", "--envoy=envoy.yaml"}, []commandTest{
		{name: "log", args: []string{"a.yaml", "access.log", "--denied=access.log"}, code: 2, stderr: []string{"weir: --denied: access.log is the same file as access.log"}},
		{name: "link to the log", args: []string{"a.yaml", "access.log", "--html=./link"}, code: 2, stderr: []string{"weir: --html: ./link is the same file as access.log"}},
		{name: "rules", args: []string{"rules", "access.log", "--html=rules/r.yaml"}, code: 2, stderr: []string{"weir: --html: rules/r.yaml is the same file as rules/r.yaml"}},
		{name: "old rules", args: []string{"a.yaml", "access.log", "--compare=rules", "--html=rules/r.yaml"}, code: 2, stderr: []string{"weir: --html: rules/r.yaml is the same file as rules/r.yaml"}},
		{name: "configuration", args: []string{"a.yaml", "access.log", "--html=envoy.yaml"}, code: 2, stderr: []string{"weir: --html: envoy.yaml is the same file as envoy.yaml"}},
		{name: "twice", args: []string{"a.yaml", "access.log", "--html=x", "--denied=./x"}, code: 2, stderr: []string{"weir: --denied: ./x is the same file as x"}},
		{name: "no report", args: []string{"a.yaml", "bad.log", "--html=old", "--denied=x"}, code: 2, stderr: []string{"weir: bad.log: no readable line"}},
	})
	for file, want := range map[string]string{"access.log": userLines, "old": "before\n", "envoy.yaml": byUser, "rules/r.yaml": oncePer} {
		if data, err := os.ReadFile(file); err != nil || string(data) != want {
			t.Errorf("%s: %v, %q", file, err, data)
		}
	}
	if code, _, stderr := call(t, "simulate", "--envoy=envoy.yaml", "a.yaml", "access.log", "--denied=linked", "--html="+os.DevNull); code != 0 {
		t.Fatal(stderr)
	}
	wantFiles(t, dir, "a.yaml", "access.log", "bad.log", "envoy.yaml", "link", "linked", "old", "rules")
	data, err := os.ReadFile("old")
	if info, _ := os.Stat("old"); err != nil || !strings.HasPrefix(string(data), "access.log:2\t") || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %q, %v", err, data, info.Mode())
	}
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries := testenv.Must(os.ReadDir(dir))(t)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	testenv.EqualLists(t, names, want, "files")
}

// A signal stops a run that waits for its standard input, and all files stay unchanged.
func TestSimulateInterrupted(t *testing.T) {
	dir := rules(t, "a.yaml", oncePer, "envoy.yaml", byUser, "denied", "before\n")
	command := inProcess("simulate", "a.yaml", "-", "--envoy=envoy.yaml", "--html=page", "--denied=denied")
	command.Dir = dir
	in := testenv.Must(command.StdinPipe())(t)
	defer in.Close()
	log := start(t, command)
	const morePerPipe = 1 << 20 // more than a pipe buffers, so the program has read some of it
	testenv.Must(io.WriteString(in, strings.Repeat(userLines, morePerPipe/len(userLines))))(t)
	testenv.OK(t, command.Process.Signal(os.Interrupt))
	_ = command.Wait() // the exit code is checked below
	compare(t, 2, []string{"weir: interrupted"}, nil, command.ProcessState.ExitCode(), log.String(), "")
	wantFiles(t, dir, "a.yaml", "denied", "envoy.yaml")
	if data, err := os.ReadFile(filepath.Join(dir, "denied")); err != nil || string(data) != "before\n" {
		t.Errorf("%v, %q", err, data)
	}
}
