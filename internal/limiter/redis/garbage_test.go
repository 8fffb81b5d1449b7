package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// thenCloses has the fake close the connection, after the text before it.
const thenCloses = "(closes)"

// most is the largest length that a number of 64 bits can claim.
const most = "9223372036854775807"

// TestWhateverRedisRepliesIsSurvived has a Redis that is none, or is broken: it
// replies to one command with what no Redis does. Callers must have an error or a decision
// in time, and nothing may be left when Redis is back. What a reply claims to hold is for
// go-redis to believe or not.
func TestWhateverRedisRepliesIsSurvived(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, to string // to which command; "": the script
		reply    string
		kind     Type
	}{
		{name: "a negative length", reply: "*-2\r\n"},
		{name: "a length that is no number", reply: "*abc\r\n"},
		{name: "an empty line", reply: "\r\n"},
		{name: "no type", reply: "hello\r\n"},
		{name: "a page", reply: "HTTP/1.1 400 Bad Request\r\n\r\n<html>"},
		{name: "nil", reply: "$-1\r\n"},
		{name: "a status", reply: "+OK\r\n"},
		{name: "a big number", reply: "*2\r\n(3492890328409238509324850943850943825024385\r\n:1\r\n"},
		{name: "an empty array", reply: "*0\r\n"},
		{name: "texts for integers", reply: "*2\r\n$3\r\nabc\r\n+OK\r\n"},
		{name: "an error in the middle", reply: "*3\r\n:1\r\n-ERR no\r\n:1\r\n"},
		{name: "too few integers", reply: "*1\r\n:1785585600000000\r\n"},
		{name: "too many integers", reply: "*3\r\n:1785585600000000\r\n:1000001\r\n:1000001\r\n"},
		{name: "a negative state", reply: "*7\r\n:1785585600000000\r\n:-1\r\n:0\r\n:-5\r\n:-5\r\n:-5\r\n:0\r\n"},
		{name: "an unknown word", reply: "*7\r\n:1785585600000000\r\n:-1\r\n:9\r\n:1\r\n:1\r\n:0\r\n:0\r\n"},
		{name: "a refusal without a reason", reply: "*7\r\n:1785585600000000\r\n:-1\r\n:3\r\n:0\r\n:0\r\n:0\r\n:0\r\n"},
		{name: "a time out of range", reply: "*2\r\n:" + most + "\r\n:1000001\r\n"},
		{name: "an error", reply: "-ERR no\r\n"},
		{name: "moved to nowhere", reply: "-MOVED 99999999 nowhere\r\n"},
		{name: "no script, for ever", reply: "-NOSCRIPT none\r\n"},
		{name: "a pushed message", reply: ">2\r\n$4\r\nnote\r\n:1\r\n"},
		{name: "two replies", reply: "*2\r\n:1\r\n:1\r\n*2\r\n:1\r\n:1\r\n"},
		{name: "half a reply", reply: "*2\r\n:17855856"},
		{name: "half a reply, then the end", reply: "*2\r\n:17855856" + thenCloses},
		{name: "nothing", reply: ""},

		{name: "HELLO answered by bytes", to: "hello", reply: "\x16\x03\x01\x00\r\n"},
		{name: "HELLO answered by arrays as names", to: "hello", reply: "*2\r\n*0\r\n*0\r\n"},
		{name: "HELLO not answered", to: "hello", reply: ""},
		{name: "INFO that is an array", to: "info", reply: "*1\r\n:1\r\n"},

		{name: "slots without nodes", to: "cluster slots", kind: Cluster, reply: "*1\r\n*2\r\n:0\r\n:16383\r\n"},
		{name: "no slots", to: "cluster slots", kind: Cluster, reply: "*0\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProxy(t, listen(t, func(conn net.Conn) { serveFake(t.Context(), conn, c.to, c.reply) }))
			s := open(t, Options{Main: Server{Type: c.kind, Addr: p.addr, Timeout: 100 * time.Millisecond}})
			for i := range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), long)
				if _, err := ask(ctx, s, fmt.Sprint("k", i), perYear); err != nil && !errors.Is(err, limiter.ErrUnavailable) {
					t.Errorf("got error %v, want one that wraps %v", err, limiter.ErrUnavailable)
				}
				_ = s.Ping(ctx)
				if ctx.Err() != nil {
					t.Error("the answers did not come in time")
				}
				cancel()
			}
			if c.kind == Cluster {
				return // which could not come back as a single Redis
			}
			real := testenv.RedisServer(t).Addr()
			p.target.Store(&real)
			p.drop()
			testenv.Until(t, "Redis decides", func() bool {
				d, err := ask(t.Context(), s, "k", perYear)
				return err == nil && d.Used > 0 // as the fake never replies
			})
			fresh := 0 // what was not answered in time may have been counted
			testenv.Until(t, "a new counter begins with 1", func() bool {
				fresh++
				d, err := ask(t.Context(), s, fmt.Sprint("other", fresh), perYear)
				return err == nil && d.Used == 1
			})
		})
	}
}

// serveFake replies to one command, or to the script if it names none, with a text, and to others
// as Redis does.
func serveFake(ctx context.Context, conn net.Conn, to, reply string) {
	defer conn.Close()
	context.AfterFunc(ctx, func() { conn.Close() })
	r := bufio.NewReader(conn)
	for {
		command, err := readCommand(r)
		switch {
		case err != nil:
			return
		case command == to, to == "" && strings.HasPrefix(command, "eval"):
			text, closes := strings.CutSuffix(reply, thenCloses)
			if _, err = io.WriteString(conn, text); closes {
				return
			}
		case command == "hello":
			_, err = io.WriteString(conn, "-ERR unknown command\r\n")
		case command == "info":
			_, err = io.WriteString(conn, "$11\r\nrole:master\r\n")
		case command == "cluster info":
			_, err = io.WriteString(conn, "$16\r\ncluster_state:ok\r\n")
		default:
			_, err = io.WriteString(conn, "*2\r\n:1785585600000000\r\n:1000001\r\n")
		}
		if err != nil {
			return
		}
	}
}

// readCommand returns the name of a command: its first word, of CLUSTER two.
func readCommand(r *bufio.Reader) (name string, err error) {
	number := func() (n int) {
		var line string
		if line, err = r.ReadString('\n'); err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line)[1:])
		}
		return n
	}
	words := number()
	for i := 0; i < words && err == nil; i++ {
		word := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(r, word)
		}
		switch text := strings.ToLower(strings.TrimSpace(string(word))); {
		case i == 0:
			name = text
		case i == 1 && name == "cluster":
			name += " " + text
		}
	}
	return name, err
}
