package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
)

// redis starts the redis-server in PATH, without persistence. args are further options.
func (w *workshop) redis(args ...string) (*program, error) {
	p := &program{name: "redis", address: freeAddress()}
	host, port, _ := net.SplitHostPort(p.address)
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	p, err = w.start(p, path, nil, append([]string{"--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", w.dir}, args...)...)
	if err == nil {
		p.counter = p.instructions()
	}
	return p, err
}

// redisAsk sends commands, each on a separate line, and returns all replies.
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

// redisInfo reads numbers such as used_memory from sections of INFO.
func (p *program) redisInfo(ctx context.Context, sections []string, fields ...string) ([]float64, error) {
	var commands []string
	for _, section := range sections {
		commands = append(commands, "INFO "+section)
	}
	text, err := p.redisAsk(ctx, commands...)
	if err != nil {
		return nil, err
	}
	numbers := make([]float64, len(fields))
	for i, field := range fields {
		_, rest, found := strings.Cut(text, "\n"+field+":")
		if !found {
			continue // the command was never called
		}
		number, _, _ := strings.Cut(rest, "\r")
		number, _, _ = strings.Cut(number, ",") // such as calls=7,usec=... and keys=7,expires=...
		if _, value, found := strings.Cut(number, "="); found {
			number = value
		}
		if numbers[i], err = strconv.ParseFloat(number, 64); err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// redisWork is the work of a Redis since its start.
type redisWork struct {
	used         float64 // microseconds of CPU time
	calls        float64 // calls of scripts
	bytes        float64 // bytes received and sent
	instructions float64 // instructions in user space, or 0 if this machine cannot count them
}

// redisWork returns the work of Redis so far. The CPU time is from INFO, because /proc
// rounds it to 10 ms, which is too much at low rates.
func (p *program) redisWork(ctx context.Context) (redisWork, error) {
	n, err := p.redisInfo(ctx, []string{"cpu", "commandstats", "stats"},
		"used_cpu_sys", "used_cpu_user", "cmdstat_evalsha", "total_net_input_bytes", "total_net_output_bytes")
	if err != nil {
		return redisWork{}, err
	}
	w := redisWork{used: (n[0] + n[1]) * 1e6, calls: n[2], bytes: n[3] + n[4]}
	if p.counter != nil {
		w.instructions, err = p.counter.read()
	}
	return w, err
}

func (w redisWork) plus(o redisWork) redisWork {
	return redisWork{w.used + o.used, w.calls + o.calls, w.bytes + o.bytes, w.instructions + o.instructions}
}

func (w redisWork) minus(o redisWork) redisWork {
	return redisWork{w.used - o.used, w.calls - o.calls, w.bytes - o.bytes, w.instructions - o.instructions}
}

// redisConn sends commands in pipelines.
type redisConn struct {
	net.Conn
	replies  *bufio.Reader
	pipeline []byte
}

func (p *program) redisConn(ctx context.Context) (*redisConn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	return &redisConn{Conn: conn, replies: bufio.NewReader(conn)}, nil
}

// add adds a command to the pipeline.
func (c *redisConn) add(words ...string) {
	c.pipeline = fmt.Appendf(c.pipeline, "*%d\r\n", len(words))
	for _, word := range words {
		c.pipeline = fmt.Appendf(c.pipeline, "$%d\r\n%s\r\n", len(word), word)
	}
}

// send sends the pipeline and reads its replies, which have the given number of lines.
// It returns the last line.
func (c *redisConn) send(lines int) (last string, err error) {
	if _, err := c.Write(c.pipeline); err != nil {
		return "", err
	}
	c.pipeline = c.pipeline[:0]
	for range lines {
		if last, err = c.replies.ReadString('\n'); err != nil {
			return "", err
		}
		if last[0] == '-' {
			return "", errors.New(strings.TrimSpace(last[1:]))
		}
	}
	return strings.TrimSpace(last), nil
}
