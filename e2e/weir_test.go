package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/testenv"
)

// binaries is the directory of the program, which is built once for all tests.
var binaries string

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "weir-e2e"); err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(binaries)
	m.Run()
}

var buildOnce = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-o", filepath.Join(binaries, "weir"), "weir/cmd/server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // static as in the image, because some tests run it without a C library
	out, err := build.CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return nil
})

// program returns the path of the program, built on first use.
func program(t *testing.T) string {
	t.Helper()
	testenv.OK(t, buildOnce())
	return filepath.Join(binaries, "weir")
}

// weir is a running Weir.
type weir struct {
	*process
	grpc, http, metrics, debug string // host:port of its listeners
}

// anyPort are the settings that let the system choose every port.
var anyPort = []string{
	"GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "HOST=127.0.0.1", "PORT=0",
	"DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "PROMETHEUS_ADDR=127.0.0.1:0", "LOG_FORMAT=json",
}

// startWeir starts Weir with the given rules and environment, and waits until
// it is healthy.
func startWeir(t *testing.T, rules string, env ...string) *weir {
	t.Helper()
	w := runWeir(t, append(env, "CONFIG_PATH="+rules), program(t))
	w.waitUntilHealthy()
	return w
}

// runWeir runs the program, or a command that starts it, in the root of the repository.
func runWeir(t *testing.T, env []string, command ...string) *weir {
	t.Helper()
	return &weir{process: run(t, testenv.Repository(t), append(slices.Clone(anyPort), env...), command[0], command[1:]...)}
}

// waitUntilHealthy waits until Weir has logged its addresses and its health check succeeds.
func (w *weir) waitUntilHealthy() {
	w.t.Helper()
	w.waitForHealth(200, "")
}

// waitForHealth waits until the health check answers with a status and a body that contains
// the text.
func (w *weir) waitForHealth(status int, body string) {
	w.t.Helper()
	testenv.Eventually(w.t, func() error {
		testenv.OK(w.t, w.ended())
		if err := w.readAddresses(); err != nil {
			return err
		}
		a, err := fetch("http://" + w.http + "/healthcheck")
		if err == nil && (a.status != status || !strings.Contains(a.body, body)) {
			err = fmt.Errorf("health check: %d %s", a.status, a.body)
		}
		return err
	})
}

// readAddresses reads Weir's addresses from its log. It fails if they are not logged yet.
func (w *weir) readAddresses() error {
	for line := range strings.Lines(w.output.String()) {
		var entry struct {
			Message                    string `json:"@message"`
			GRPC, HTTP, Metrics, Debug string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "listening" {
			w.grpc, w.http, w.metrics, w.debug = entry.GRPC, entry.HTTP, entry.Metrics, entry.Debug
			return nil
		}
	}
	return errors.New("it has not logged where it listens")
}

// waitForMetric waits until Weir's metrics contain the given line.
func (w *weir) waitForMetric(line string) {
	w.t.Helper()
	waitForText(w.t, "http://"+w.metrics+"/metrics", regexp.QuoteMeta(line+"\n"))
}

// waitForText waits until a page has a text that matches a pattern.
func waitForText(t *testing.T, url, pattern string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		a, err := fetch(url)
		if err == nil && !regexp.MustCompile(pattern).MatchString(a.body) {
			err = fmt.Errorf("%s has no %s:\n%s", url, pattern, a.body)
		}
		return err
	})
}

// page returns the body of a page of the debug port.
func (w *weir) page(path string) string {
	w.t.Helper()
	return testenv.Must(fetch("http://" + w.debug + path))(w.t).body
}

// metric returns the sum of those series of a metric whose labels contain a text.
func (w *weir) metric(name, labels string) (sum float64) {
	w.t.Helper()
	a := testenv.Must(fetch("http://" + w.metrics + "/metrics"))(w.t)
	series := regexp.MustCompile(`(?m)^` + name + `(?:{.*` + regexp.QuoteMeta(labels) + `.*})? (\S+)$`)
	for _, line := range series.FindAllStringSubmatch(a.body, -1) {
		sum += testenv.Must(strconv.ParseFloat(line[1], 64))(w.t)
	}
	return sum
}

// rulesPerDay returns rules that admit an amount of requests a day for each value of a key.
func rulesPerDay(key string, amount int) string {
	return fmt.Sprintf("domain: api\ndescriptors: [{key: %s, rate_limit: {unit: day, requests_per_unit: %d}}]\n", key, amount)
}

func userRules(amount int) string { return rulesPerDay("user", amount) }

// writeRules writes rules into a new directory and returns it.
func writeRules(t *testing.T, rules string) string {
	t.Helper()
	dir := t.TempDir()
	replaceFile(t, filepath.Join(dir, "rules.yaml"), rules)
	return dir
}

// replaceRules replaces the rules that writeRules wrote.
func replaceRules(t *testing.T, dir, rules string) {
	t.Helper()
	replaceFile(t, filepath.Join(dir, "rules.yaml"), rules)
}

// replaceFile replaces a file in one step, as editors and deployments do.
func replaceFile(t *testing.T, file, text string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(file), ".next")
	testenv.Write(t, next, text)
	testenv.OK(t, os.Rename(next, file))
}

// patience is the maximum time that a test waits for an event. It is generous, because they stop
// waiting as soon as the event happens.
const patience = 2 * time.Minute

// process is a program that belongs to one test.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	output testenv.Log
	exited chan struct{} // closed when the program has ended
}

// run starts a program with the test's environment and env. When the test ends, run kills the
// program and its children. If the test failed, it logs the output.
func run(t *testing.T, dir string, env []string, name string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	return launch(t, cmd, cmd.Start)
}

// output runs a command line in the repository and returns its output. It must succeed.
func output(t *testing.T, command string, env ...string) string {
	t.Helper()
	return testenv.Must(shell(t, testenv.Repository(t), command, env...))(t)
}

// shell runs a command line in a directory, with weir in its PATH, and returns its output.
func shell(t *testing.T, dir, command string, env ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // the command may compile a program
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Shell(t), "-ec", command)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(withProgram(t), env...), time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return string(out), err
}

// withProgram returns the environment with the program weir in its PATH.
func withProgram(t *testing.T) []string {
	t.Helper()
	return append(os.Environ(), "PATH="+filepath.Dir(program(t))+":"+os.Getenv("PATH"))
}

// launch starts cmd by calling start. Like run, it kills the program and logs its output.
func launch(t *testing.T, cmd *exec.Cmd, start func() error) *process {
	t.Helper()
	p := &process{t: t, name: cmd.Path, cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout = cmp.Or[io.Writer](cmd.Stdout, &p.output)
	cmd.Stderr = cmp.Or[io.Writer](cmd.Stderr, &p.output)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that signal reaches the children, too
	if err := start(); err != nil {
		t.Fatalf("starting %s: %v", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // its outcome is in ProcessState
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", strings.Join(cmd.Args, " "), &p.output)
		}
	})
	return p
}

// signal sends sig to the program and its children, unless the program has ended.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.exited:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, sig) // fails only if it has just ended
	}
}

// waitForEnd waits for the program to end.
func (p *process) waitForEnd() {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("%s still runs", p.name)
	}
}

// wantExit waits for the program to end by itself, with this code.
func (p *process) wantExit(want int) {
	p.t.Helper()
	p.waitForEnd()
	testenv.Equal(p.t, p.cmd.ProcessState.ExitCode(), want, "exit code")
}

// kill kills the program, as a crash would.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// ended returns an error if the program has ended.
func (p *process) ended() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended: %v", p.name, p.cmd.ProcessState)
	default:
		return nil
	}
}
