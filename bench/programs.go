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

// workshop builds, starts and stops programs in a temporary directory.
type workshop struct {
	dir      string
	programs []*program
}

// program is a running process that listens on loopback.
type program struct {
	name    string
	address string // address of the measured service
	http    string // address of Weir's /healthcheck
	debug   string // address of Weir's /-/reload
	cmd     *exec.Cmd
	startup time.Duration // from its execution until it answered
	counter *instructions // nil if this machine cannot count instructions
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

// build builds a program of a module, with flags for go build.
func (w *workshop) build(name, module, pkg string, flags ...string) error {
	args := slices.Concat([]string{"build", "-C", module, "-o", filepath.Join(w.dir, name)}, flags, []string{pkg})
	text, err := exec.Command("go", args...).CombinedOutput() //nolint:gosec // packages of this repository
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, text)
	}
	return nil
}

// stopAll stops all programs.
func (w *workshop) stopAll() {
	for _, p := range w.programs {
		p.stop()
	}
	w.programs = nil
}

// close stops all programs and removes the directory.
func (w *workshop) close() {
	w.stopAll()
	os.RemoveAll(w.dir) //nolint:errcheck // a temporary directory
}

// start starts a program and waits until it answers. Its environment is only PATH and
// env, so that it does not depend on the user's settings.
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
		_ = p.cmd.Wait() // p.wait returns an error if it exits early
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
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // fails if it has exited already
	<-p.exited
}

// addResident adds the resident memory of the process, in bytes.
func (p *program) addResident(to *rounds) error {
	bytes, err := p.residentBytes()
	*to = append(*to, bytes)
	return err
}

// residentBytes returns the resident memory of the process.
func (p *program) residentBytes() (float64, error) {
	stat, err := p.stat()
	return float64(stat.ResidentMemory()), err
}

// stat returns the statistics of the process.
func (p *program) stat() (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(p.pid())
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return proc.Stat()
}

// servers are the servers that most experiments compare.
type servers struct {
	floor  *program
	memory *program // Weir with counters in memory
	redis  *program
	stored *program // Weir with counters in redis
}

// redises returns the Redis whose cost belongs to s.stored.
func (s servers) redises() []*program { return []*program{s.redis} }

// servers starts the servers.
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

func (w *workshop) floor() (*program, error) {
	p := &program{name: "floor", address: freeAddress()}
	return w.start(p, filepath.Join(w.dir, "floor"), nil, p.address)
}

// weir starts Weir with the given rules. env are settings, as NAME=value.
func (w *workshop) weir(name, rules string, env ...string) (*program, error) {
	return w.weirOf("weir", name, rules, env...)
}

// weirOf is like weir, for the build with the given name.
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
		"REQUEST_TIMEOUT=10s", "REDIS_TIMEOUT=10s", // long enough to measure slow requests
		"GRPC_HOST=" + host, "HOST=" + host, "DEBUG_HOST=" + host,
		"GRPC_PORT=" + port, "PORT=" + httpPort, "DEBUG_PORT=" + debugPort, "PROMETHEUS_ADDR=" + host + ":0",
	}, env...)
	return w.start(p, filepath.Join(w.dir, build), env)
}

// freeAddress returns a loopback address that the system does not assign again while this
// program runs: a socket stays bound to it, but does not listen. Programs that set
// SO_REUSEADDR, such as Redis and Go, can listen there.
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
