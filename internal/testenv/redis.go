package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Redis is a redis-server for one test. Its data is only in memory. Its files are in a
// directory that is removed when the test ends.
type Redis struct {
	t        testing.TB
	program  string
	args     []string
	addr     string
	socket   string
	password string
	log      bytes.Buffer
	cmd      *exec.Cmd
	exited   chan struct{} // closed when cmd has exited
}

// RedisServer starts a redis-server on a free port of 127.0.0.1 and on a unix
// socket, waits until it answers, and kills it when the test ends. args are
// further command-line options, such as "--maxmemory", "1mb". Without
// redis-server, the test is skipped.
func RedisServer(t testing.TB, args ...string) *Redis {
	t.Helper()
	r := &Redis{t: t, program: Program(t, "redis-server"), addr: OwnAddr(t)}
	for slices.Contains(args, "--cluster-enabled") && !hasBus(r.addr) {
		r.addr = OwnAddr(t)
	}
	if i := slices.Index(args, "--requirepass"); i >= 0 {
		r.password = args[i+1]
	}
	// The path of a unix socket is limited to about 100 bytes. That excludes t.TempDir,
	// which contains the name of the test.
	dir := Must(os.MkdirTemp("", "redis"))(t)
	r.socket = filepath.Join(dir, "redis.sock")
	t.Cleanup(func() {
		r.Stop()
		os.RemoveAll(dir)
	})

	host, port, _ := net.SplitHostPort(r.addr)
	r.args = append([]string{
		"--bind", host, "--port", port, "--unixsocket", r.socket,
		"--dir", dir, "--save", "", "--appendonly", "no",
	}, args...)
	if err := r.start(); err != nil {
		t.Fatalf("starting redis-server: %v\n%s", err, r.log.Bytes())
	}
	return r
}

// Addr returns the server's TCP address as host:port.
func (r *Redis) Addr() string { return r.addr }

// Socket returns the path of the server's unix socket.
func (r *Redis) Socket() string { return r.socket }

// Stop kills the server without an orderly shutdown, like a crash. It does nothing if
// the server is not running.
func (r *Redis) Stop() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill() // fails only if the server has exited already
	<-r.exited
	r.cmd = nil
}

// Pause suspends the server. The server keeps its connections, but does not answer
// until Resume.
func (r *Redis) Pause() { r.signal(syscall.SIGSTOP) }

// Resume continues the server after Pause.
func (r *Redis) Resume() { r.signal(syscall.SIGCONT) }

func (r *Redis) signal(s os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Errorf("sending %v to redis-server: %v", s, err)
	}
}

// Start starts the server again after Stop, with the same addresses and
// options, and waits until it answers.
func (r *Redis) Start() {
	r.t.Helper()
	if err := r.start(); err != nil {
		r.Stop()
		r.t.Fatalf("starting redis-server again: %v\n%s", err, r.log.Bytes())
	}
}

func (r *Redis) start() error {
	r.log.Reset()
	r.cmd = exec.Command(r.program, r.args...)
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	if err := r.cmd.Start(); err != nil {
		r.cmd = nil
		return err
	}
	r.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // the server was killed, or its log says why it exited
		close(exited)
	}(r.cmd, r.exited)

	deadline := time.Now().Add(patience)
	for !r.answers() {
		select {
		case <-r.exited:
			return fmt.Errorf("it ended: %v", r.cmd.ProcessState)
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer within %v", patience)
		}
	}
	return nil
}

// answers reports whether the server replies, even if the reply is an error, for example while the
// server loads its data.
func (r *Redis) answers() bool {
	_, err := r.try("ping")
	_, isReply := errors.AsType[replyError](err)
	return err == nil || isReply
}
