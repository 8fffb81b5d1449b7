package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/testenv"
)

// Marks in a reply that change the behaviour of the fake.
const (
	thenCloses = "(closes)"  // closes the connection after the text before the mark
	endless    = "(endless)" // repeats the text after the mark without end
)

// Commands to sentinels.
const (
	addressOf   = "sentinel get-master-addr-by-name"
	sentinelsOf = "sentinel sentinels"
)

// subscribed is the reply to the subscription to changes of the primary.
var subscribed = "*3" + strings.TrimPrefix(proto.Strings("subscribe", "+switch-master"), "*2") + ":1\r\n"

// most is the largest length of an array or a string that 64 bits can represent.
const most = "9223372036854775807"

// TestWhateverRedisRepliesIsSurvived has a fake Redis that sends an invalid reply to one
// command. The process must survive in bounded memory, callers must get an error or a decision
// in time, and requests must work again when a real Redis replaces the fake.
func TestWhateverRedisRepliesIsSurvived(t *testing.T) {
	real := testenv.RedisServer(t).Addr()
	type row struct {
		name, to string // to is the command that gets the reply, or empty for the script
		reply    string
	}
	var rows []row
	for _, to := range []string{"", "hello", "info", "cluster slots", addressOf, sentinelsOf} {
		for _, kind := range []string{"*", "$", "%", "~", ">", "|", "!", "="} {
			rows = append(rows, row{kind + " of the largest length to " + to, to, kind + most + "\r\n"})
		}
	}
	for _, c := range append(rows, []row{
		{name: "a string of the largest length but two", to: "info", reply: "$9223372036854775805\r\n"},
		{name: "a length beyond all", reply: "*" + most + "0\r\n"},
		{name: "an array of two billion", reply: "*2000000000\r\n"},
		{name: "a string of two billion, then silence", to: "info", reply: "$2000000000\r\nabc"},
		{name: "two billion after a few integers", reply: "*3\r\n:1\r\n:2\r\n*2000000000\r\n"},
		{name: "many strings of some size", to: "hello", reply: "*1000\r\n+a\r\n" + endless + "$1000000\r\n" + strings.Repeat("a", 1_000_000) + "\r\n"},
		{name: "many arrays of some size", to: "hello", reply: "*2\r\n+a\r\n" + endless + "*1000000\r\n"},
		{name: "arrays in arrays", reply: endless + "*1\r\n"},
		{name: "arrays in arrays to HELLO", to: "hello", reply: "*2\r\n+a\r\n" + endless + "*1\r\n"},
		{name: "maps in maps to HELLO", to: "hello", reply: "%1\r\n+a\r\n" + endless + "%1\r\n+a\r\n"},
		{name: "a line without end", reply: endless + "abcdefgh"},
		{name: "an integer without end", reply: endless + ":1234567"},
		{name: "an error without end", reply: "-" + endless + "no "},
		{name: "arrays without end", reply: endless + "*2\r\n:1\r\n:1\r\n"},
		{name: "HELLO answered by a string without end", to: "hello", reply: "$2000000000\r\n"},
		{name: "HELLO answered by a map of maps", to: "hello", reply: "%1\r\n%1\r\n+a\r\n+b\r\n+c\r\n"},
		{name: "a slot with the largest number of nodes", to: "cluster slots", reply: "*1\r\n*" + most + "\r\n:0\r\n:1\r\n"},
		{name: "a slot of one element", to: "cluster slots", reply: "*1\r\n*1\r\n:0\r\n"},
		{name: "slots that are none", to: "cluster slots", reply: "*1\r\n*3\r\n:20000\r\n:30000\r\n*3\r\n$0\r\n\r\n:0\r\n$1\r\na\r\n"},
		{name: "slots from the last to the first", to: "cluster slots", reply: "*1\r\n*3\r\n:16383\r\n:0\r\n*3\r\n$0\r\n\r\n:0\r\n$1\r\na\r\n"},
		{name: "an address without a port", to: addressOf, reply: proto.Strings("127.0.0.1")},
		{name: "an empty address", to: addressOf, reply: "*0\r\n"},
		{name: "an address of nothing", to: addressOf, reply: proto.Strings("", "")},
		{name: "an address of nils", to: addressOf, reply: "*2\r\n$-1\r\n$-1\r\n"},
		{name: "an address of numbers", to: addressOf, reply: "*2\r\n:1\r\n:2\r\n"},
		{name: "an address of arrays", to: addressOf, reply: "*2\r\n*1\r\n:1\r\n*1\r\n:1\r\n"},
		{name: "an address with more than a port", to: addressOf, reply: proto.Strings("127.0.0.1", "1", "1")},
		{name: "an address that is a map", to: addressOf, reply: "%1\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n"},
		{name: "an address that is a set", to: addressOf, reply: "~1\r\n$9\r\n127.0.0.1\r\n"},
		{name: "an address that is a status", to: addressOf, reply: "+OK\r\n"},
		{name: "no address", to: addressOf, reply: "*-1\r\n"},
		{name: "an address, never", to: addressOf, reply: ""},
		{name: "an address, then the end", to: addressOf, reply: "*2\r\n$9\r\n127.0.0.1\r\n" + thenCloses},
		{name: "sentinels that are none", to: sentinelsOf, reply: "*3\r\n:1\r\n*3\r\n+ip\r\n+a\r\n+port\r\n*0\r\n"},
		{name: "many sentinels", to: sentinelsOf, reply: "*50000\r\n" + strings.Repeat("*4\r\n+ip\r\n+127.0.0.1\r\n+port\r\n+1\r\n", 50_000)},
		{name: "a message of another primary without an address", to: "subscribe", reply: subscribed + proto.Strings("message", "+switch-master", "weir")},
		{name: "a message from a channel that is a number", to: "subscribe", reply: subscribed + "*3\r\n$7\r\nmessage\r\n:1\r\n$1\r\na\r\n"},
		{name: "a message that is too short", to: "subscribe", reply: subscribed + proto.Strings("message")},
		{name: "a message of numbers", to: "subscribe", reply: subscribed + "*2\r\n:1\r\n:1\r\n"},
		{name: "negative slots", to: "cluster slots", reply: "*1\r\n*3\r\n:-" + most + "\r\n:" + most + "\r\n*3\r\n$0\r\n\r\n:0\r\n$1\r\na\r\n"},

		{name: "a negative length", reply: "*-2\r\n"},
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

		{name: "slots without nodes", to: "cluster slots", reply: "*1\r\n*2\r\n:0\r\n:16383\r\n"},
		{name: "no slots", to: "cluster slots", reply: "*0\r\n"},
	}...) {
		t.Run(c.name, func(t *testing.T) {
			var p *proxy // leads to the fake, as Redis and as a sentinel
			set := make(chan struct{})
			fake := func(to, reply string) string {
				return listen(t, func(conn net.Conn) {
					<-set
					serveFake(t.Context(), conn, p.addr, to, reply)
				})
			}
			p = newProxy(t, fake(c.to, c.reply))
			close(set)
			main := Server{Addr: p.addr, Timeout: 100 * time.Millisecond}
			switch {
			case c.to == "cluster slots":
				main.Type = conn.Cluster
			case c.to == "subscribe", strings.HasPrefix(c.to, "sentinel"):
				main.Type, main.Primary = conn.Sentinel, "weir"
				t.Parallel() // go-redis waits for a second after it has found no primary
			}
			if strings.Contains(c.reply, endless) { // because sending too many bytes takes time
				main.Timeout = long
			}
			s := open(t, Options{Main: main})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
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
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 16*conn.MaxReply { // for six calls
				t.Errorf("%d MiB were allocated", n>>20)
			}
			back := real
			switch main.Type {
			case conn.Cluster:
				return // the real Redis is not a cluster
			case conn.Sentinel:
				host, port, _ := net.SplitHostPort(real)
				back = fake(addressOf, proto.Strings(host, port))
			}
			p.target.Store(&back)
			p.mu.Lock()
			for _, client := range p.clients {
				client.Close()
			}
			p.mu.Unlock()
			testenv.Until(t, "Redis decides", func() bool {
				d, err := ask(t.Context(), s, c.name, perYear)
				return err == nil && d.Used > 0 // the fake never replies with this
			})
			fresh := 0 // new keys, because a request without a reply in time may have been counted
			testenv.Until(t, "a new counter begins with 1", func() bool {
				fresh++
				d, err := ask(t.Context(), s, fmt.Sprint(c.name, fresh), perYear)
				return err == nil && d.Used == 1
			})
		})
	}
}

// serveFake answers the command named in parameter to, or the script if to is empty, with reply. It
// replies to other commands as Redis does, and as a sentinel whose primary is at addr.
func serveFake(ctx context.Context, conn net.Conn, addr, to, reply string) {
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
			text, again, isEndless := strings.Cut(text, endless)
			if _, err = io.WriteString(conn, text); closes {
				return
			}
			block := strings.Repeat(again, 1+100_000/max(len(again), 1))
			for isEndless && err == nil {
				_, err = io.WriteString(conn, block)
			}
		case command == "hello":
			_, err = io.WriteString(conn, "-ERR unknown command\r\n")
		case command == "info":
			_, err = io.WriteString(conn, "$11\r\nrole:master\r\n")
		case command == addressOf:
			host, port, _ := net.SplitHostPort(addr)
			_, err = io.WriteString(conn, proto.Strings(host, port))
		case command == sentinelsOf:
			_, err = io.WriteString(conn, "*0\r\n")
		case command == "subscribe":
			_, err = io.WriteString(conn, subscribed)
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

// readCommand returns the name of a command: its first word, or the first two words of CLUSTER
// and SENTINEL.
func readCommand(r *bufio.Reader) (name string, err error) {
	text, err := proto.Read(r)
	if err != nil {
		return "", err
	}
	words, err := proto.ReadStrings(text)
	if err != nil {
		return "", err
	}
	name = strings.ToLower(words[0])
	if name == "cluster" || name == "sentinel" {
		name += " " + strings.ToLower(words[1])
	}
	return name, nil
}
