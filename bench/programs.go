package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// workshop is where the programs are built and run, and ends them.
type workshop struct {
	dir      string
	programs []*program
}

// program is a running process that listens on loopback.
type program struct {
	name    string
	address string // of what is measured
	http    string // of Weir's /healthcheck
	debug   string // of Weir's /-/reload
	cmd     *exec.Cmd
	startup time.Duration // from its execution until it answered
	counter *instructions // nil: this machine counts none
	exited  chan struct{}
}

// newWorkshop builds the server and the floor.
func newWorkshop() (*workshop, error) {
	dir, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return nil, err
	}
	w := &workshop{dir: dir}
	for name, in := range map[string]struct{ module, pkg string }{"weir": {repository, "./cmd/server"}, "floor": {".", "./floor"}} {
		if err := w.build(name, in.module, in.pkg); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

// build builds a program.
func (w *workshop) build(name, module, pkg string, flags ...string) error {
	args := slices.Concat([]string{"build", "-C", module, "-o", filepath.Join(w.dir, name)}, flags, []string{pkg})
	text, err := exec.Command("go", args...).CombinedOutput() //nolint:gosec // packages of this repository
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, text)
	}
	return nil
}

// stopAll ends all programs.
func (w *workshop) stopAll() {
	for _, p := range w.programs {
		p.stop()
	}
	w.programs = nil
}

// close ends all programs and removes what was built.
func (w *workshop) close() {
	w.stopAll()
	os.RemoveAll(w.dir) //nolint:errcheck // a temporary directory
}

// start runs a program and waits until it answers. Of the environment it gets
// PATH only, and env, so that settings of the user change nothing.
func (w *workshop) start(p *program, path string, env []string, args ...string) (*program, error) {
	log, err := os.Create(filepath.Join(w.dir, p.name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...) //nolint:gosec // the programs of this file
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = w.dir, log, log
	begun := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.exited = make(chan struct{})
	go func() {
		_ = p.cmd.Wait() // told below
		close(p.exited)
	}()
	w.programs = append(w.programs, p)
	if err := p.wait(); err != nil {
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("starting %s: %w\n%s", p.name, err, text)
	}
	p.startup = time.Since(begun)
	return p, nil
}

// wait waits until the program answers.
func (p *program) wait() error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		select {
		case <-p.exited:
			return errors.New("it ended")
		case <-time.After(2 * time.Millisecond):
		}
		if p.answers() {
			return nil
		}
	}
	return errors.New("it does not answer")
}

func (p *program) answers() bool {
	if p.http != "" {
		response, err := http.Get("http://" + p.http + "/healthcheck")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	conn, err := net.Dial("tcp", p.address)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func (p *program) pid() int { return p.cmd.Process.Pid }

func (p *program) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-p.exited
}

// addResident adds what the process holds of the machine's memory, in bytes.
func (p *program) addResident(to *rounds) error {
	bytes, err := p.residentBytes()
	*to = append(*to, bytes)
	return err
}

// residentBytes is what the process holds of the machine's memory.
func (p *program) residentBytes() (float64, error) {
	stat, err := p.stat()
	return float64(stat.ResidentMemory()), err
}

// stat is what the process has used.
func (p *program) stat() (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(p.pid())
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return proc.Stat()
}

// servers are what most experiments compare.
type servers struct {
	floor  *program
	memory *program // Weir with counters in memory
	redis  *program
	stored *program // Weir with counters in that Redis
}

// redises are those that the costs of s.stored count.
func (s servers) redises() []*program { return []*program{s.redis} }

// servers starts them.
func (w *workshop) servers() (s servers, err error) {
	if s.floor, err = w.floor(); err != nil {
		return s, err
	}
	if s.memory, err = w.weir("memory", rulesOf(mostDescriptors, plenty)); err != nil {
		return s, err
	}
	if s.redis, err = w.redis(); err != nil {
		return s, err
	}
	s.stored, err = w.weir("stored", rulesOf(mostDescriptors, plenty), "REDIS_URL="+s.redis.address)
	return s, err
}

// floor starts the floor.
func (w *workshop) floor() (*program, error) {
	p := &program{name: "floor", address: freeAddress()}
	return w.start(p, filepath.Join(w.dir, "floor"), nil, p.address)
}

// weir starts Weir with the given rules. env are settings, as NAME=value.
func (w *workshop) weir(name, rules string, env ...string) (*program, error) {
	return w.weirOf("weir", name, rules, env...)
}

// weirOf is weir of a build with that name.
func (w *workshop) weirOf(build, name, rules string, env ...string) (*program, error) {
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rules), 0o600); err != nil {
		return nil, err
	}
	p := &program{name: name, address: freeAddress(), http: freeAddress(), debug: freeAddress()}
	host, port, _ := net.SplitHostPort(p.address)
	_, httpPort, _ := net.SplitHostPort(p.http)
	_, debugPort, _ := net.SplitHostPort(p.debug)
	env = append([]string{
		"CONFIG_PATH=" + dir, "LOG_LEVEL=warn",
		"REQUEST_TIMEOUT=10s", "REDIS_TIMEOUT=10s", // what is slow shall be measured, not cut off
		"GRPC_HOST=" + host, "HOST=" + host, "DEBUG_HOST=" + host,
		"GRPC_PORT=" + port, "PORT=" + httpPort, "DEBUG_PORT=" + debugPort, "PROMETHEUS_ADDR=" + host + ":0",
	}, env...)
	return w.start(p, filepath.Join(w.dir, build), env)
}

// freeAddress returns an address on loopback that the system gives to nobody else while
// this program runs: a socket stays bound to it that does not listen. Who sets
// SO_REUSEADDR, as Redis and Go do, can listen there.
func freeAddress() string {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		panic(err) // without sockets nothing can be measured
	}
	syscall.CloseOnExec(socket)
	err = errors.Join(
		syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, nameErr := syscall.Getsockname(socket)
	if err := errors.Join(err, nameErr); err != nil {
		panic(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*syscall.SockaddrInet4).Port))
}
