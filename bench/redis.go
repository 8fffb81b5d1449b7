package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
)

// redis starts the Redis of PATH, which keeps nothing on disk.
func (w *workshop) redis() (*program, error) {
	p := &program{name: "redis", address: freeAddress()}
	host, port, _ := net.SplitHostPort(p.address)
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	return w.start(p, path, nil, "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", w.dir)
}

// redisAsk sends commands, each a line of its own, and returns all replies.
func (p *program) redisAsk(ctx context.Context, commands ...string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s\r\nQUIT\r\n", strings.Join(commands, "\r\n")); err != nil {
		return "", err
	}
	replies, err := io.ReadAll(conn)
	return string(replies), err
}

// redisInfo reads a number such as used_memory from a section of INFO.
func (p *program) redisInfo(ctx context.Context, section, field string) (int64, error) {
	text, err := p.redisAsk(ctx, "INFO "+section)
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(text, "\n"+field+":")
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

// redisCalls is how often the script was called.
func (p *program) redisCalls(ctx context.Context) (int64, error) {
	return p.redisInfo(ctx, "commandstats", "cmdstat_evalsha")
}
