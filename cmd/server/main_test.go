package main

import (
	"bytes"
	"context"
	"encoding/json"
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

// asProgram is the variable that makes the test's binary run as the program itself.
const asProgram = "WEIR_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	for _, flag := range serveFlags() {
		os.Unsetenv(flag.Envs[0]) // the environment must not change the settings of the tests
	}
	for _, name := range []string{"WEIR_SERVER", "WEIR_TOKEN_FILE", "ADMIN_TOKEN_FILE", "WEIR_CA_FILE"} {
		os.Unsetenv(name)
	}
	time.Local = time.UTC // commands print local times
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
		cancel() // so serve stops immediately
	}
	return callUntil(ctx, args...)
}

// callUntil runs the program within the test until ctx is done.
func callUntil(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// rules creates a directory of files from alternating names and contents.
func rules(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		testenv.Write(t, filepath.Join(dir, files[i]), files[i+1])
	}
	return dir
}

const (
	good = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: day, requests_per_unit: 3}\n"
	more = "domain: api\ndescriptors:\n  - key: path\n"
	bad  = "domain: api\ndescriptors:\n  - key: a\n    rate_limit: {unit: minuet, requests_per_unit: 1}\n  - key: b\n    colour: red\n"
)

// local contains flags that let any number of tests run a server at the same time.
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
		{name: "misspelt variable", env: "REDIS_ULR=redis://:swordfish@redis", args: serve("--config=" + dir), stderr: []string{`msg="a variable has no effect" variable=REDIS_ULR value=(hidden) instead="did you mean REDIS_URL?"`}},
		{name: "log as JSON", env: "LOG_FORMAT=json", args: serve("--drain-timeout=1m30s", "--config="+dir), stderr: []string{`"level":"info","@message":"draining","timeout":"1m30s"}`}},
		{name: "bad rules as JSON", env: "LOG_FORMAT=json", args: serve("--config=" + wrong), code: 1, stderr: []string{`"level":"error","@message":"weir exits","reason":"cannot start","problems":["`}},
		{name: "bad flag as JSON", env: "LOG_FORMAT=json", args: []string{"--port=http"}, code: 2, stderr: []string{`"reason":"invalid flags, variables or arguments","problems":["--port ($PORT): `}},
		{name: "bad rules", args: serve("--config=" + wrong), code: 1, stderr: []string{"\n" + wrong + "/a.yaml:4:", "minuet", "\n" + wrong + "/a.yaml:6:", "colour"}},
		{name: "unknown flag", args: []string{"--nope"}, code: 2, stderr: []string{"weir: unknown flag --nope\n", "Usage: weir", "--help"}},
		{name: "unknown command", args: []string{"explode"}, code: 2, stderr: []string{"weir: unknown command explode\n\nUsage: weir <command> [flags]\nRun \"weir --help\" for more information.\n"}},
		{name: "misspelt command", args: []string{"validat", dir}, code: 2, stderr: []string{"weir: unknown command validat, did you mean \"validate\"?\n\nUsage: weir <command> [flags]\nRun \"weir --help\" for"}},
		{name: "argument of serve", args: []string{"serve", "validat"}, code: 2, stderr: []string{"weir: serve takes no arguments, only flags, such as --config PATH; put quotes around a value with spaces\n\nUsage: weir serve [flags]\n"}},
		{name: "bad flag", args: []string{"--port=http"}, code: 2, stderr: []string{"weir: --port ($PORT): \"http\" is not a port; use 0 to 65535\n\nUsage: weir serve [flags]\nRun \"weir serve --help\" for more information.\n"}},
		{name: "bad variable", env: "GRPC_PORT=tcp://10.0.0.1:8081", code: 2, stderr: []string{"--grpc-port ($GRPC_PORT): ", "use 0 to 65535", "enableServiceLinks: false\n\nUsage: weir serve [flags]\n"}},
		{name: "word as duration of a load", args: []string{"bench", "--warmup=abc"}, code: 2, stderr: []string{"weir: --warmup: \"abc\" is not a duration; use a number"}},
		{name: "several bad settings", env: "GRPC_SERVER_USE_TLS=true", args: []string{"--drain-timeout=0s", "--decision-log-rate=0"}, code: 2, stderr: []string{"\n--drain-timeout ($DRAIN_TIMEOUT): 0s is not allowed", "--decision-log-rate ($DECISION_LOG_RATE): 0 is not allowed", "\n--grpc-server-tls-key ($GRPC_SERVER_TLS_KEY): is required"}},
		{name: "bad Redis URL", args: serve("--config="+dir, "--redis-url=redis:0"), code: 2, stderr: []string{"weir: --redis-url ($REDIS_URL): redis URL is not host:port, the path of a unix socket, or a URL with redis://, rediss:// or unix://; in a password, write special characters as %XX\n\nUsage: weir serve [flags]\n"}},
		{name: "valid", args: []string{"validate", dir}, stdout: []string{"valid: files=1 domains=1 rules=1\n"}},
		{name: "problems", args: []string{"validate", wrong}, code: 1, stdout: []string{wrong + "/a.yaml:4:", "minuet", wrong + "/a.yaml:6:", "colour"}},
		{name: "warnings", args: []string{"validate", hollow}, stdout: []string{"valid: files=1 domains=1 rules=0\n"}, stderr: []string{"warning: " + hollow + `/a.yaml:1:9: domain: the domain "api" has no rules, everything is admitted` + "\n"}},
		{name: "strict", args: []string{"validate", "--strict", dir}, stdout: []string{"valid: files=1 domains=1 rules=1\n"}},
		{name: "warnings are problems", args: []string{"validate", "--strict", hollow}, code: 1, stdout: []string{hollow + `/a.yaml:1:9: domain: the domain "api" has no rules, everything is admitted` + "\n"}, absent: "valid"},
		{name: "a replaces of an unknown name is a problem", stdin: "domain: api\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: b}]}}\n", args: []string{"validate", "--strict", "--output=github", "-"}, code: 1, stdout: []string{`::error::descriptors[0].rate_limit.replaces[0].name: no limit of the domain "api" has the name "b"`}},
		{name: "syntax", stdin: "domain: api\ndescriptors:\n- key: user\n   value: x\n", args: []string{"validate", "-"}, code: 1, stdout: []string{"stdin:4: invalid YAML: mapping values are not allowed in this context\n     2 | descriptors:\n     3 | - key: user\n >   4 |    value: x\n"}},
		{name: "syntax of a secret", stdin: "swordfish: [\n", args: []string{"validate", "-"}, code: 1, stdout: []string{"stdin:1: invalid YAML: "}},
		{name: "tests", args: []string{"validate", dir + "/a.yaml", tests + "/a_test.yaml"}, code: 1, stdout: []string{tests + "/a_test.yaml:1:1: this file contains tests: run it with weir test\n"}},
		{name: "one domain twice", args: []string{"validate", two}, code: 1, stdout: []string{"b.yaml:1:", "api"}, stderr: []string{"notes.txt: skipped, its name is not that of a file of rules\n"}},
		{name: "pipe among rules", args: []string{"validate", odd}, code: 2, stdout: []string{"read " + odd + "/b.yaml: it is not a regular file; use a regular file or a link to a regular file\n"}},
		{name: "pipe among rules served", args: serve("--config=" + odd), code: 1, stderr: []string{"b.yaml: it is not a regular file"}},
		{name: "one domain twice, merged by variable", env: "MERGE_DOMAIN_CONFIG=true", args: []string{"validate", two}, stdout: []string{"files=2"}},
		{name: "nothing to validate", args: []string{"validate", empty}, code: 1, stdout: []string{"no rule files in " + empty + "; Weir reads .yaml, "}},
		{name: "problems beside an unreadable path", args: []string{"validate", dir, missing, wrong}, code: 2, stdout: []string{"missing: no such file", wrong + "/a.yaml:4:", wrong + "/a.yaml:6:"}},
		{name: "standard input", stdin: good, args: []string{"validate", "-"}, stdout: []string{"valid: files=1 domains=1 rules=1\n"}},
		{name: "problems of standard input", stdin: bad, args: []string{"validate", "-"}, code: 1, stdout: []string{"stdin:4:24: descriptors[0].rate_limit.unit: unknown unit"}},
		{name: "standard input beside a file", stdin: more, args: []string{"validate", dir + "/a.yaml", "-"}, code: 1, stdout: []string{"stdin:1:9: domain: \"api\" is already the domain of "}},
		{name: "too long a standard input", stdin: strings.Repeat("#", 16<<20+1), args: []string{"validate", "-"}, code: 1, stdout: []string{"stdin: "}},
		{name: "no path", args: []string{"validate", "--strict"}, code: 2, stderr: []string{"weir: an argument is missing: <path> ...\n", "Usage: weir validate"}},
		{name: "schema", args: []string{"schema"}, stdout: []string{testenv.Read(t, "../../docs/rules.schema.json")}},
		{name: "version", args: []string{"version"}, stdout: []string{"weir ", runtime.Version()}},
		{name: "help", args: []string{"--help"}, stdout: []string{"Usage: weir <command> [flags]", "validate", "explain", "test", "version"}},
		{name: "help of a command", env: "PORT=http", args: []string{"help", "validate"}, stdout: []string{"Usage: weir validate"}},
		{name: "help whatever else is wrong", env: "PORT=http", args: []string{"validate", "--help"}, stdout: []string{"Usage: weir validate"}},
	})
}

// TestArgumentsOfTheReference checks which arguments the program ignores under the name ratelimit.
func TestArgumentsOfTheReference(t *testing.T) {
	for _, tt := range []struct {
		args, kept string
		ignored    []string
	}{
		{"--quotaRateLimitServiceHost=envoy-ai-gateway-ratelimit.envoy-gateway-system", "", []string{"--quotaRateLimitServiceHost"}},
		{"--nope a --port 0 -x --port=1 b=c", "--port 0 --port=1", []string{"--nope", "(hidden)", "-x", "(hidden)"}},
		{"--confg=a --config=b", "--config=b", []string{"--confg"}},
		{"validate rules", "validate rules", nil},
		{"--port=http", "--port=http", nil}, // a known flag with an invalid value is an error
	} {
		var log bytes.Buffer
		kept := withoutUnknown(strings.Fields(tt.args), &log)
		var ignored []string
		for _, found := range regexp.MustCompile(`argument=(\S+)`).FindAllStringSubmatch(log.String(), -1) {
			ignored = append(ignored, found[1])
		}
		if got := strings.Join(kept, " "); got != tt.kept || !slices.Equal(ignored, tt.ignored) {
			t.Errorf("%s: kept %q, want %q; ignored %q, want %q", tt.args, got, tt.kept, ignored, tt.ignored)
		}
	}
}

// commandTest is a command that a test runs, with its expected exit code and output.
type commandTest struct {
	name           string
	env            string // NAME=value
	stdin          string // if not empty, the command runs as a separate process
	args           []string
	code           int
	stdout, stderr []string // texts that stdout and stderr must contain
	absent         string   // text that stdout must not contain, if not empty
	silent         bool     // stdout is empty
}

// runCommands runs each command as a subtest. The arguments in before precede its own.
func runCommands(t *testing.T, before []string, tests []commandTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if name, value, ok := strings.Cut(tt.env, "="); ok {
				t.Setenv(name, value)
			}
			args := slices.Concat(before, tt.args)
			run := func() (int, string, string) { return call(t, args...) }
			if tt.stdin != "" {
				run = func() (int, string, string) { return callProcess(tt.stdin, args...) }
			}
			code, stdout, stderr := run()
			compare(t, tt.code, tt.stdout, tt.stderr, code, stdout, stderr)
			for line := range strings.Lines(stderr) {
				if tt.env == "LOG_FORMAT=json" && (!json.Valid([]byte(line)) || !strings.HasPrefix(line, `{"@timestamp":"20`)) {
					t.Errorf("no line of the log: %s", line)
				}
			}
			testenv.Lacks(t, stdout+stderr, "swordfish")
			if tt.absent != "" && strings.Contains(stdout, tt.absent) || tt.silent && stdout != "" {
				t.Errorf("stdout %q contains %q, or anything", stdout, tt.absent)
			}
		})
	}
}

// inProcess returns a command that runs the program as a separate process.
func inProcess(args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), asProgram+"=1")
	return command
}

// callProcess runs the program as a process with a standard input.
func callProcess(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	command := inProcess(args...)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &out, &errs
	_ = command.Run() // the caller checks the exit code
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

// compare checks an exit code, and that stdout and stderr contain the wanted texts.
func compare(t *testing.T, wantCode int, wantStdout, wantStderr []string, code int, stdout, stderr string) {
	t.Helper()
	testenv.Equal(t, code, wantCode, "exit code of what printed\n%s%s", stdout, stderr)
	testenv.Contains(t, stdout, wantStdout...)
	testenv.Contains(t, stderr, wantStderr...)
}

// With an ENTRYPOINT, manifests that call /bin/ratelimit in the image would pass it to the
// program as an argument. The version contains the build arguments of the image.
func TestImage(t *testing.T) {
	dockerfile := testenv.Read(t, "../../Dockerfile")
	if !strings.Contains(dockerfile, "\nCMD [\"/bin/weir\"]\n") || strings.Contains(dockerfile, "\nENTRYPOINT ") {
		t.Error("the image does not run by CMD alone")
	}
	line := regexp.MustCompile(`(?m)^RUN .* -o /image/bin/weir \./cmd/server`).FindString(dockerfile)
	for variable, argument := range map[*string]string{&release: "main.release=$VERSION", &commit: "main.commit=$COMMIT", &date: "main.date=$DATE"} {
		testenv.Contains(t, line, "-X "+argument)
		before := *variable
		*variable = argument
		t.Cleanup(func() { *variable = before })
	}
	if got, want := build().String(), "main.release=$VERSION, revision main.commit=$COMMIT, main.date=$DATE, go"; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestHelpIsOneScreen checks that the program's help fits into 25 lines of 80 columns.
func TestHelpIsOneScreen(t *testing.T) {
	const want = `Weir is a rate limit service for Envoy. Usage: weir <command> [flags]

  serve        Serve rate limit requests
  check        Check everything that serve needs
  validate     Check rules
  explain      Explain what happens to a descriptor
  descriptors  Show which descriptors Envoy sends for a request
  test         Run unit tests of rules
  simulate     Replay access logs against rules before you enforce them
  bench        Load-test a server of Envoy's RateLimitService
  status       Show the status of a running server
  top          Show who is denied most, and by which rule
  denials      Show the last denials
  peek         Show the counters and recent denials of a descriptor
  reset        Reset the counters of a descriptor to zero
  assign       Assign an amount to a descriptor, in place of its rule's
  assigned     List assigned amounts
  except       Add, list or remove exceptions to the rules
  schema       Print the JSON Schema of rule files, for editors
  completion   Print a completion script for a shell
  version      Print the version
  help         Show flags and examples: weir help <command>

Without a command, weir serves. Each flag of serve is also a variable.
Exit codes: 0 success, 1 problems or no match, 2 bad usage, input or connection.
`
	if lines := strings.Split(want, "\n"); len(lines) > 26 || slices.ContainsFunc(lines, func(line string) bool { return len(line) > 80 }) {
		t.Error("this is more than a screen")
	}
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}} {
		if code, got, stderr := call(t, args...); code != exitOK || got != want || stderr != "" {
			t.Errorf("weir %s shows\n%s%s\nwant\n%s", strings.Join(args, " "), got, stderr, want)
		}
	}
}

// TestSignals sends signals to a real process.
func TestSignals(t *testing.T) {
	command := inProcess(append(local[:len(local):len(local)], "--config="+rules(t, "a.yaml", good))...)
	log := start(t, command)
	log.WaitFor(t, "msg=listening")
	testenv.OK(t, command.Process.Signal(syscall.SIGHUP))
	testenv.Until(t, "the rules are loaded again", func() bool { return strings.Count(log.String(), `msg="rules loaded"`) == 2 })
	testenv.OK(t, command.Process.Signal(syscall.SIGTERM))
	if err := command.Wait(); err != nil || !strings.Contains(log.String(), "msg=draining") || !strings.HasSuffix(log.String(), "msg=stopped\n") {
		t.Errorf("after SIGTERM: %v\n%s", err, log)
	}
}

// start starts a process and returns its output. When the test ends, it stops the process.
func start(t *testing.T, command *exec.Cmd) *testenv.Log {
	t.Helper()
	log := new(testenv.Log)
	command.Stdout, command.Stderr = log, log
	testenv.OK(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait() // fails if the test has already waited
	})
	return log
}

// addresses reads the addresses of a server from its log. The keys are names of listeners.
func addresses(log *testenv.Log) map[string]string {
	found := map[string]string{}
	for _, l := range regexp.MustCompile(`\b(grpc|http|debug|metrics)["=:]+(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(log.String(), -1) {
		found[l[1]] = l[2]
	}
	return found
}

// An image FROM scratch has no time zone data, so the program must contain it.
func TestTimeZonesAreInTheProgram(t *testing.T) {
	packages := testenv.Must(exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output())(t)
	testenv.Contains(t, string(packages), "\ntime/tzdata\n")
}
