package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testenv"
)

// patience is how long anything may take that happens by itself: generous,
// because nothing waits longer than it has to.
const patience = 2 * time.Minute

// process is a program that belongs to one test.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	output testenv.Log
	exited chan struct{} // closed when the program has ended
}

// run starts a program with the test's environment and env on top of it. It is
// killed with everything it started when the test ends; if the test failed, its
// output is logged.
func run(t *testing.T, dir string, env []string, name string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	return launch(t, cmd, cmd.Start)
}

// output runs a program in the repository, which must succeed, and returns what it prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = testenv.Repository(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// launch starts cmd by means of start. What run does for a program, it does
// for this one.
func launch(t *testing.T, cmd *exec.Cmd, start func() error) *process {
	t.Helper()
	p := &process{t: t, name: cmd.Path, cmd: cmd, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // one signal reaches all
	if err := start(); err != nil {
		t.Fatalf("starting %s: %v", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // its outcome is in ProcessState
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.exited
		if t.Failed() {
			t.Logf("output of %s:\n%s", strings.Join(cmd.Args, " "), &p.output)
		}
	})
	return p
}

// signal sends sig to the program and everything it started, unless it has ended.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.exited:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, sig) // fails only if it has just ended
	}
}

// exitCode waits for the program to end by itself.
func (p *process) exitCode() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("%s still runs", p.name)
	}
	return p.cmd.ProcessState.ExitCode()
}

// wantExit waits for the program to end by itself, with this code.
func (p *process) wantExit(want int) {
	p.t.Helper()
	if code := p.exitCode(); code != want {
		p.t.Errorf("exit code %d, want %d", code, want)
	}
}

// wantEndWithin sends SIGTERM, after which the program must end within so long.
func (p *process) wantEndWithin(longest time.Duration) {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(longest):
		p.t.Errorf("it still runs %v after SIGTERM", longest)
	}
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
