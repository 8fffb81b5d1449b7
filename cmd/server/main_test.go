package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"weir/internal/settings"
	"weir/internal/testenv"
)

// asProgram makes the test's binary be the program itself.
const asProgram = "WEIR_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	for _, flag := range serveFlags() {
		os.Unsetenv(flag.Envs[0]) // the settings of the tests are theirs alone
	}
	for _, name := range []string{"WEIR_SERVER", "WEIR_TOKEN_FILE", "ADMIN_TOKEN_FILE", "WEIR_CA_FILE"} {
		os.Unsetenv(name)
	}
	time.Local = time.UTC // in which times are shown
	os.Exit(m.Run())
}

func serveFlags() []*kong.Flag {
	return kong.Must(&struct{ settings.Settings }{}, kong.NoDefaultHelp()).Model.Flags
}

// call runs the program within the test.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if len(args) == 0 || args[0] == "serve" || strings.HasPrefix(args[0], "-") {
		cancel() // what serves ends at once
	}
	return callUntil(ctx, args...)
}

// callUntil runs the program within the test until ctx ends.
func callUntil(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// rules makes a directory of files, given as name and content in turn.
func rules(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o644))
	}
	return dir
}

const (
	good = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: day, requests_per_unit: 3}\n"
	more = "domain: api\ndescriptors:\n  - key: path\n"
	bad  = "domain: api\ndescriptors:\n  - key: a\n    rate_limit: {unit: minuet, requests_per_unit: 1}\n  - key: b\n    colour: red\n"
)

// local are flags that let any number of tests serve.
var local = []string{"--host=127.0.0.1", "--port=0", "--grpc-host=127.0.0.1", "--grpc-port=0", "--debug-host=127.0.0.1", "--debug-port=0", "--prometheus-addr=127.0.0.1:0", "--drain-delay=0s"}

func TestExitCodes(t *testing.T) {
	dir := rules(t, "a.yaml", good)
	two := rules(t, "a.yaml", good, "b.yaml", more, "notes.txt", "")
	tests := rules(t, "a_test.yaml", passing)
	wrong, hollow := rules(t, "a.yaml", bad), rules(t, "a.yaml", "domain: api\n")
	empty := t.TempDir()
	missing := filepath.Join(t.TempDir(), "missing")
	odd := rules(t, "a.yaml", good)
	testenv.OK(t, syscall.Mkfifo(filepath.Join(odd, "b.yaml"), 0o600))
	serve := func(args ...string) []string { return append(local[:len(local):len(local)], args...) }
	runCommands(t, nil, []commandTest{
		{name: "serve", args: append([]string{"serve"}, serve("--config="+dir)...), stderr: []string{"listening", "draining", "stopped"}},
		{name: "rules by variable", env: "CONFIG_PATH=" + dir, args: serve(), stderr: []string{"listening"}},
		{name: "log as JSON", env: "LOG_FORMAT=json", args: serve("--config=" + dir), stderr: []string{`"level":"info","@message":"listening"`, `{"@timestamp":"20`}},
		{name: "bad rules", args: serve("--config=" + wrong), code: 1, stderr: []string{"\n" + wrong + "/a.yaml:4:", "minuet", "\n" + wrong + "/a.yaml:6:", "colour"}},
		{name: "unknown flag", args: []string{"--nope"}, code: 2, stderr: []string{"weir: unknown flag --nope\n", "Usage: weir", "--help"}},
		{name: "unknown command", args: []string{"explode"}, code: 2, stderr: []string{"weir: unknown command explode\n\nUsage: weir <command> [flags]\nRun \"weir --help\" for more information.\n"}},
		{name: "misspelt command", args: []string{"validat", dir}, code: 2, stderr: []string{"weir: unknown command validat, did you mean \"validate\"?\n\nUsage: weir <command> [flags]\nRun \"weir --help\" for"}},
		{name: "path without flag", args: []string{dir}, code: 2, stderr: []string{"weir: unknown command " + dir + "\n"}},
		{name: "argument of serve", args: []string{"serve", "validat"}, code: 2, stderr: []string{"weir: serve takes no arguments, only flags, such as --config PATH; put quotes around a value with spaces\n\nUsage: weir serve [flags]\n"}},
		{name: "bad flag", args: []string{"--port=http"}, code: 2, stderr: []string{"weir: --port: \"http\" is not a port; use 0 to 65535\n\nUsage: weir serve [flags]\nRun \"weir serve --help\" for more information.\n"}},
		{name: "bad variable", env: "GRPC_PORT=tcp://10.0.0.1:8081", code: 2, stderr: []string{"--grpc-port: ", "use 0 to 65535", "enableServiceLinks: false ($GRPC_PORT)\n\nUsage: weir serve [flags]\n"}},
		{name: "duration without a unit", env: "DRAIN_DELAY=5", code: 2, stderr: []string{"weir: --drain-delay: expected duration but got \"5\": time: missing unit in duration \"5\" ($DRAIN_DELAY)\n"}},
		{name: "word as duration of a load", args: []string{"bench", "--warmup=abc"}, code: 2, stderr: []string{"weir: --warmup: expected duration but got \"abc\""}},
		{name: "TLS without files", env: "GRPC_SERVER_USE_TLS=true", code: 2, stderr: []string{"weir: --grpc-server-tls-cert ($GRPC_SERVER_TLS_CERT): is required", "\n--grpc-server-tls-key ($GRPC_SERVER_TLS_KEY): is required"}},
		{name: "several bad settings", env: "GRPC_SERVER_USE_TLS=true", args: []string{"--drain-timeout=0s", "--decision-log-rate=0"}, code: 2, stderr: []string{"\n--drain-timeout ($DRAIN_TIMEOUT): 0s is not allowed", "--decision-log-rate ($DECISION_LOG_RATE): 0 is not allowed", "\n--grpc-server-tls-key ($GRPC_SERVER_TLS_KEY): is required"}},
		{name: "bad Redis URL", args: serve("--config="+dir, "--redis-url=redis"), code: 2, stderr: []string{"weir: --redis-url ($REDIS_URL): redis URL is not host:port, the path of a unix socket, or a URL with redis://, rediss:// or unix://; in a password, write special characters as %XX\n\nUsage: weir serve [flags]\n"}},
		{name: "valid", args: []string{"validate", dir}, stdout: []string{"valid: files=1 domains=1 rules=1\n"}},
		{name: "problems", args: []string{"validate", wrong}, code: 1, stdout: []string{wrong + "/a.yaml:4:", "minuet", wrong + "/a.yaml:6:", "colour"}},
		{name: "warnings", args: []string{"validate", hollow}, stdout: []string{"valid: files=1 domains=1 rules=0\n"}, stderr: []string{"warning: " + hollow + `/a.yaml:1:9: domain: the domain "api" has no rules, everything is admitted` + "\n"}},
		{name: "tests", args: []string{"validate", dir + "/a.yaml", tests + "/a_test.yaml"}, code: 1, stdout: []string{tests + "/a_test.yaml:1:1: this file contains tests: run it with weir test\n"}},
		{name: "one domain twice", args: []string{"validate", two}, code: 1, stdout: []string{"b.yaml:1:", "api"}, stderr: []string{"notes.txt: skipped, its name is not that of a file of rules\n"}},
		{name: "pipe among rules", args: []string{"validate", odd}, code: 2, stdout: []string{"read " + odd + "/b.yaml: it is not a regular file; use a regular file or a link to a regular file\n"}},
		{name: "device as rules", args: []string{"validate", "/dev/zero"}, code: 2, stdout: []string{"/dev/zero: it is not a regular file"}},
		{name: "pipe among rules served", args: serve("--config=" + odd), code: 1, stderr: []string{"b.yaml: it is not a regular file"}},
		{name: "one domain twice, merged by variable", env: "MERGE_DOMAIN_CONFIG=true", args: []string{"validate", two}, stdout: []string{"files=2"}},
		{name: "nothing to validate", args: []string{"validate", empty}, code: 1, stdout: []string{"no rule files in " + empty + "; Weir reads .yaml, "}},
		{name: "problems beside an unreadable path", args: []string{"validate", dir, missing, wrong}, code: 2, stdout: []string{"missing: no such file", wrong + "/a.yaml:4:", wrong + "/a.yaml:6:"}},
		{name: "no path", args: []string{"validate"}, code: 2, stderr: []string{"<path>", "Usage: weir validate"}},
		{name: "version", args: []string{"version"}, stdout: []string{"weir ", runtime.Version()}},
		{name: "help", args: []string{"--help"}, stdout: []string{"Usage: weir <command> [flags]", "validate", "explain", "test", "version"}},
		{name: "help of a command", env: "PORT=http", args: []string{"help", "validate"}, stdout: []string{"Usage: weir validate"}},
		{name: "help whatever else is wrong", env: "PORT=http", args: []string{"validate", "--help"}, stdout: []string{"Usage: weir validate"}},
	})
}

// commandTest is a command that a test runs, and what must be seen of it.
type commandTest struct {
	name           string
	env            string // NAME=value
	args           []string
	code           int
	stdout, stderr []string // parts of them
	absent         string   // from stdout, unless it is empty
	silent         bool     // nothing at all on stdout
}

// runCommands runs commands by name, whose arguments come after some of all.
func runCommands(t *testing.T, before []string, tests []commandTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if name, value, ok := strings.Cut(tt.env, "="); ok {
				t.Setenv(name, value)
			}
			code, stdout, stderr := call(t, slices.Concat(before, tt.args)...)
			compare(t, tt.code, tt.stdout, tt.stderr, code, stdout, stderr)
			if tt.absent != "" && strings.Contains(stdout, tt.absent) || tt.silent && stdout != "" {
				t.Errorf("stdout %q contains %q, or anything", stdout, tt.absent)
			}
		})
	}
}

// inProcess returns the program as a process of its own.
func inProcess(args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), asProgram+"=1")
	return command
}

// compare holds what a call returned to an exit code and to texts that must
// occur.
func compare(t *testing.T, wantCode int, wantStdout, wantStderr []string, code int, stdout, stderr string) {
	t.Helper()
	if code != wantCode {
		t.Errorf("exit code %d, want %d\n%s%s", code, wantCode, stdout, stderr)
	}
	for _, want := range wantStdout {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout %q does not contain %q", stdout, want)
		}
	}
	for _, want := range wantStderr {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr %q does not contain %q", stderr, want)
		}
	}
}

// TestLogAsJSON holds all that is written to the format, up to the end.
func TestLogAsJSON(t *testing.T) {
	type line struct {
		Level, Reason string
		Msg           string `json:"@message"`
		Problems      []string
		Timeout       any
	}
	tests := []struct {
		name string
		env  map[string]string
		args []string
		code int
		want func(line) bool
	}{
		{name: "duration", args: append(local[:len(local):len(local)], "--drain-timeout=1m30s", "--config="+rules(t, "a.yaml", good)),
			want: func(l line) bool { return l.Msg == "draining" && l.Timeout == "1m30s" }},
		{name: "bad rules", args: []string{"--config=" + rules(t, "a.yaml", bad)}, code: 1, want: func(l line) bool {
			return l.Level == "error" && l.Reason == "cannot start" && len(l.Problems) == 3 &&
				strings.Contains(l.Problems[1], "a.yaml:4:") && strings.Contains(l.Problems[2], "a.yaml:6:")
		}},
		{name: "bad variable", env: map[string]string{"PORT": "http"}, code: 2, want: func(l line) bool {
			return l.Level == "error" && len(l.Problems) == 1 && strings.Contains(l.Problems[0], "use 0 to 65535")
		}},
		{name: "unknown flag", args: []string{"--nope"}, code: 2, want: func(l line) bool {
			return l.Level == "error" && len(l.Problems) == 1 && l.Problems[0] == "unknown flag --nope"
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("LOG_FORMAT", "json")
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			code, _, stderr := call(t, tt.args...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			found := false
			for text := range strings.Lines(stderr) {
				var l line
				if err := json.Unmarshal([]byte(text), &l); err != nil {
					t.Errorf("%s: %v", text, err)
				}
				found = found || tt.want(l)
			}
			if !found {
				t.Errorf("the wanted line is missing in:\n%s", stderr)
			}
		})
	}
}

// With an ENTRYPOINT, manifests that call /bin/ratelimit in the image would pass
// it to the program as an argument. What the image is built with arrives in the version.
func TestImage(t *testing.T) {
	dockerfile := readText(t, "../../Dockerfile")
	if !strings.Contains(dockerfile, "\nCMD [\"/bin/weir\"]\n") || strings.Contains(dockerfile, "\nENTRYPOINT ") {
		t.Error("the image does not run by CMD alone")
	}
	line := regexp.MustCompile(`(?m)^RUN .* -o /image/bin/weir \./cmd/server`).FindString(dockerfile)
	for variable, argument := range map[*string]string{&release: "main.release=$VERSION", &commit: "main.commit=$COMMIT", &date: "main.date=$DATE"} {
		if !strings.Contains(line, "-X "+argument) {
			t.Errorf("the build lacks %s: %s", argument, line)
		}
		before := *variable
		*variable = argument
		t.Cleanup(func() { *variable = before })
	}
	if got, want := build().String(), "main.release=$VERSION, revision main.commit=$COMMIT, main.date=$DATE, go"; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestHelpIsOneScreen holds what the program shows of itself to 24 lines of 80
// columns.
func TestHelpIsOneScreen(t *testing.T) {
	const want = `Weir is a rate limit service for Envoy. Usage: weir <command> [flags]

  serve        Serve rate limit requests
  validate     Check rules
  explain      Explain what happens to a descriptor
  descriptors  Show which descriptors Envoy sends for a request
  test         Run unit tests of rules
  simulate     Replay access logs against rules before you enforce them
  bench        Load-test a server of Envoy's RateLimitService
  status       Show the status of a running server
  top          Show who is denied most, and by which rule
  denials      Show the last denials
  peek         Show the counters of a descriptor without counting a request
  reset        Reset the counters of a descriptor to zero
  except       Add, list or remove exceptions to the rules
  schema       Print the JSON Schema of rule files, for editors
  completion   Print a completion script for a shell
  version      Print the version
  help         Show help for weir or for one command

Without a command, weir serves. Flags and exit codes: weir help <command>
Each flag of "weir help serve" is also an environment variable.
`
	if lines := strings.Split(want, "\n"); len(lines) > 25 || slices.ContainsFunc(lines, func(line string) bool { return len(line) > 80 }) {
		t.Error("this is more than a screen")
	}
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}} {
		if code, got, stderr := call(t, args...); code != exitOK || got != want || stderr != "" {
			t.Errorf("weir %s shows\n%s%s\nwant\n%s", strings.Join(args, " "), got, stderr, want)
		}
	}
}

// TestSignals holds a real process to its signals.
func TestSignals(t *testing.T) {
	command := inProcess(append(local[:len(local):len(local)], "--config="+rules(t, "a.yaml", good))...)
	log := start(t, command)
	log.wait(t, `msg=listening.*`, 1)
	testenv.OK(t, command.Process.Signal(syscall.SIGHUP))
	log.wait(t, `msg="rules loaded"`, 2)
	testenv.OK(t, command.Process.Signal(syscall.SIGTERM))
	if err := command.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	log.wait(t, `msg=draining`, 1)
	log.wait(t, `msg=stopped`, 1)
}

// logFile is the name of the file of what a process writes.
type logFile string

// start starts a process, which ends with the test at the latest.
func start(t *testing.T, command *exec.Cmd) logFile {
	t.Helper()
	file := testenv.Must(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	command.Stdout, command.Stderr = file, file
	testenv.OK(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait() // unless the test has waited
		file.Close()
	})
	return logFile(file.Name())
}

func (l logFile) read(t *testing.T) string { return readText(t, string(l)) }

// wait waits until a pattern occurs n times.
func (l logFile) wait(t *testing.T, pattern string, n int) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if text := l.read(t); len(regexp.MustCompile(pattern).FindAllString(text, -1)) < n {
			return fmt.Errorf("the log does not contain %s %d times:\n%s", pattern, n, text)
		}
		return nil
	})
}

// listening finds the addresses of a server in its log.
var listening = regexp.MustCompile(`\b(http|debug|metrics)["=:]+(127\.0\.0\.1:\d+)`)

// addresses returns the addresses of a server by the names of its listeners.
func addresses(log string) map[string]string {
	found := map[string]string{}
	for _, l := range listening.FindAllStringSubmatch(log, -1) {
		found[l[1]] = l[2]
	}
	return found
}

// A real process reads rules that another one writes.
func TestValidateStandardInput(t *testing.T) {
	for _, tt := range []struct {
		name, input string
		args        []string
		code        int
		stdout      string
	}{
		{"valid", good, nil, 0, "valid: files=1 domains=1 rules=1\n"},
		{"problems", bad, nil, 1, "stdin:4:24: descriptors[0].rate_limit.unit: unknown unit"},
		{"nothing", "", nil, 1, "stdin: "},
		{"beside a file", more, []string{rules(t, "a.yaml", good) + "/a.yaml"}, 1, "stdin:1:9: domain: \"api\" is already the domain of "},
		{"too long", strings.Repeat("#", 16<<20+1), nil, 1, "stdin: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			command := inProcess(append(append([]string{"validate"}, tt.args...), "-")...)
			command.Stdin = strings.NewReader(tt.input)
			var stdout, stderr bytes.Buffer
			command.Stdout, command.Stderr = &stdout, &stderr
			_ = command.Run() // its exit code tells
			compare(t, tt.code, []string{tt.stdout}, nil, command.ProcessState.ExitCode(), stdout.String(), stderr.String())
		})
	}
}

// An image FROM scratch has no data of time zones.
func TestTimeZonesAreInTheProgram(t *testing.T) {
	packages := testenv.Must(exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output())(t)
	if !slices.Contains(strings.Fields(string(packages)), "time/tzdata") {
		t.Error("the program lacks time/tzdata")
	}
}
