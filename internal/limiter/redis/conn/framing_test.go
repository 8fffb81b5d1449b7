package conn

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2/proto"
)

// TestFramingFollowsPieces cuts replies into pieces of any length. The result must not depend on
// the pieces.
func TestFramingFollowsPieces(t *testing.T) {
	const address, subscribe = "*3\r\n$8\r\nsentinel\r\n$23\r\nget-master-addr-by-name\r\n$4\r\nweir\r\n", "*3\r\n$9\r\nsubscribe\r\n"
	const subscribed = "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"
	news := proto.Strings("message", "+switch-master", "weir 127.0.0.1 1 127.0.0.1 2")
	for _, c := range []struct {
		command, replies string
		left             int // number of elements to come
		bad              error
	}{
		{replies: ":1\r\n+OK\r\n$3\r\na\nb\r\n$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n-\r\n"},
		{replies: "*2\r\n*1\r\n$4\r\n*9\r\n\r\n:1\r\n"},
		{replies: "*3\r\n:1\r\n-ERR a part\r\n", left: 1},
		{replies: "*2\r\n*2\r\n:1\r\n", left: 2},
		{replies: fmt.Sprintf("*%d\r\n", (MaxReply-perArray)/perElement), left: (MaxReply - perArray) / perElement},
		{replies: fmt.Sprintf("*2\r\n*%d\r\n", (MaxReply-perArray)/perElement), bad: errReplyTooBig},
		{replies: strings.Repeat("*1\r\n", MaxReply/(perArray+perElement)), left: 1},
		{replies: strings.Repeat("*1\r\n", MaxReply/(perArray+perElement)+1), bad: errReplyTooBig},
		{replies: fmt.Sprintf("*2\r\n$1\r\na\r\n$%d\r\n", MaxReply-perArray-2*perElement), bad: errReplyTooBig},
		{replies: "$9223372036854775807\r\n", bad: errReplyTooBig},
		{replies: "-" + strings.Repeat("x", maxLine), bad: errNoReply},
		{replies: "%2\r\n+a\r\n%1\r\n+b\r\n_\r\n+c\r\n", left: 1}, // protocol version 3
		{replies: "|0\r\n", bad: errNoReply},
		{replies: ":1\n", bad: errNoReply},
		{replies: "\r\n", bad: errNoReply},
		{replies: "*x\r\n", bad: errNoReply},
		{command: address, replies: proto.Strings("127.0.0.1", "1") + "*-1\r\n_\r\n-ERR no\r\n"},
		{command: address, replies: proto.Strings("127.0.0.1"), bad: errNoReply},
		{command: "*3\r\n$8\r\nsentinel\r\n$9\r\nsentinels\r\n", replies: "*0\r\n*1\r\n" + proto.Strings("ip", "127.0.0.1")},
		{command: subscribe, replies: subscribed + news + proto.Strings("pong", "") + strings.Replace(news, "*", ">", 1) + "+PONG\r\n"},
		{command: subscribe, replies: subscribed + strings.Replace(news, "weir 127.0.0.1 1 127.0.0.1 2", "weir 127.0.0.1 1 127.0.0.112", 1), bad: errNoReply},
	} {
		for _, piece := range []int{1, 2, 3, 7, len(c.replies)} {
			var f framing
			var err error
			f.expect([]byte(c.command))
			for rest := []byte(c.replies); len(rest) > 0 && err == nil; rest = rest[min(piece, len(rest)):] {
				err = f.follow(rest[:min(piece, len(rest))])
			}
			if !errors.Is(err, c.bad) || err == nil && (f.left != c.left || f.skip != 0 || len(f.line) != 0) {
				t.Errorf("%.40q by %d: %d left, %d to skip, error %v; want %d left, error %v", c.replies, piece, f.left, f.skip, err, c.left, c.bad)
			}
		}
	}
}

// BenchmarkFraming follows a reply for 256 counters, a usual size under load.
func BenchmarkFraming(b *testing.B) {
	reply := []byte("*257\r\n:1785585600000000\r\n" + strings.Repeat(":29759760000017\r\n", 256))
	var f framing
	b.ReportAllocs()
	for b.Loop() {
		f.size = 0
		if err := f.follow(reply); err != nil {
			b.Fatal(err)
		}
	}
}
