package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	exited  chan struct{}
}

// newWorkshop builds the server and the floor.
func newWorkshop() (*workshop, error) {
	dir, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return nil, err
	}
	w := &workshop{dir: dir}
	for name, pkg := range map[string]string{"weir": "./cmd/server", "floor": "./bench/floor"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, name), pkg) //nolint:gosec // the packages above
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			w.close()
			return nil, fmt.Errorf("building %s: %w\n%s", pkg, err, text)
		}
	}
	return w, nil
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

// start runs a program and waits until it answers.
func (w *workshop) start(p *program, path string, env []string, args ...string) (*program, error) {
	log, err := os.Create(filepath.Join(w.dir, p.name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...) //nolint:gosec // the programs of this file
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = env, w.dir, log, log
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

// residentBytes is what the process holds of the machine's memory.
func (p *program) residentBytes() (int64, error) {
	proc, err := procfs.NewProc(p.pid())
	if err != nil {
		return 0, err
	}
	stat, err := proc.Stat()
	return int64(stat.ResidentMemory()), err
}

// floor starts the floor.
func (w *workshop) floor() (*program, error) {
	p := &program{name: "floor", address: freeAddress()}
	return w.start(p, filepath.Join(w.dir, "floor"), os.Environ(), p.address)
}

// redis starts a Redis that keeps nothing on disk.
func (w *workshop) redis() (*program, error) {
	p := &program{name: "redis", address: freeAddress()}
	host, port, _ := net.SplitHostPort(p.address)
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	return w.start(p, path, os.Environ(), "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", w.dir)
}

// weir starts Weir with the given rules. env are settings, as NAME=value.
func (w *workshop) weir(name, rules string, env ...string) (*program, error) {
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
		"PATH=" + os.Getenv("PATH"), "CONFIG_PATH=" + dir, "LOG_LEVEL=warn",
		"REDIS_OP_TIMEOUT=10s", // what is slow shall be measured, not cut off
		"GRPC_HOST=" + host, "HOST=" + host, "DEBUG_HOST=" + host,
		"GRPC_PORT=" + port, "PORT=" + httpPort, "DEBUG_PORT=" + debugPort, "PROMETHEUS_ADDR=" + host + ":0",
	}, env...)
	return w.start(p, filepath.Join(w.dir, "weir"), env)
}

// freeAddress is an address on loopback that was free a moment ago.
func freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err.Error() // which no program can listen at, and will say so
	}
	defer listener.Close()
	return listener.Addr().String()
}

// redisInfo reads a number such as used_memory from a section of INFO.
func (p *program) redisInfo(ctx context.Context, section, field string) (int64, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "INFO %s\r\nQUIT\r\n", section); err != nil {
		return 0, err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), "\n"+field+":")
	if !found {
		return 0, nil // a command that was never called
	}
	number, _, _ := strings.Cut(rest, "\r")
	number, _, _ = strings.Cut(number, ",") // such as calls=7,usec=... and keys=7,expires=...
	if _, value, found := strings.Cut(number, "="); found {
		number = value
	}
	return strconv.ParseInt(number, 10, 64)
}

// redisFlush forgets all counters.
func (p *program) redisFlush(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "FLUSHALL SYNC\r\nQUIT\r\n"); err != nil {
		return err
	}
	_, err = io.ReadAll(conn)
	return err
}
