package redisconn

import (
	"fmt"
	"strings"
	"testing"
)

// TestFramingFollowsPieces cuts replies anywhere: what is understood of them must
// not depend on it.
func TestFramingFollowsPieces(t *testing.T) {
	for _, c := range []struct {
		replies string
		open    int    // arrays that have not ended
		said    string // the last reply, if it is an error
		bad     string // in the error
	}{
		{replies: ":1\r\n+OK\r\n$3\r\na\nb\r\n$-1\r\n*-1\r\n*0\r\n"},
		{replies: "*2\r\n*1\r\n$4\r\n*9\r\n\r\n:1\r\n"},
		{replies: "*3\r\n:1\r\n-ERR a part\r\n", open: 1},
		{replies: "*2\r\n*2\r\n:1\r\n", open: 2},
		{replies: "-ERR one\r\n-ERR two\r\n", said: "ERR two"},
		{replies: "-ERR one\r\n:1\r\n"},
		{replies: "-ERR one\r\n$0\r\n\r\n"},
		{replies: fmt.Sprintf("*%d\r\n", maxElements), open: 1},
		{replies: fmt.Sprintf("*2\r\n*%d\r\n", maxElements), bad: "arrays of more than"},
		{replies: strings.Repeat("*1\r\n", maxDepth), open: maxDepth},
		{replies: strings.Repeat("*1\r\n", maxDepth+1), bad: "within each other"},
		{replies: fmt.Sprintf("*2\r\n$1\r\na\r\n$%d\r\n", maxBulk), open: 1, bad: "strings of more than"},
		{replies: "$9223372036854775807\r\n", bad: "strings of more than"},
		{replies: "-" + strings.Repeat("x", maxLine), bad: "longer than"},
		{replies: "%1\r\n+a\r\n+b\r\n", bad: errNoReply.Error()}, // of version 3
		{replies: ">1\r\n+a\r\n", bad: errNoReply.Error()},
		{replies: "|1\r\n", bad: errNoReply.Error()},
		{replies: "hello\r\n", bad: errNoReply.Error()},
		{replies: ":1\n", bad: errNoReply.Error()},
		{replies: "\r\n", bad: errNoReply.Error()},
		{replies: "*x\r\n", bad: errNoReply.Error()},
		{replies: "*-2\r\n", bad: errNoReply.Error()},
	} {
		for _, piece := range []int{1, 2, 3, 7, len(c.replies)} {
			var f framing
			var err error
			for rest := []byte(c.replies); len(rest) > 0 && err == nil; rest = rest[min(piece, len(rest)):] {
				err = f.follow(rest[:min(piece, len(rest))])
			}
			switch {
			case c.bad != "":
				if err == nil || !strings.Contains(err.Error(), c.bad) {
					t.Errorf("%.40q by %d: got error %v, want one with %q", c.replies, piece, err, c.bad)
				}
			case err != nil || len(f.open) != c.open || string(f.said) != c.said || f.skip != 0:
				t.Errorf("%.40q by %d: open %v, said %q, %d to skip, error %v; want %d open, said %q", c.replies, piece, f.open, f.said, f.skip, err, c.open, c.said)
			}
		}
	}
}

// BenchmarkFraming follows a reply of 256 counters, as large a call as there is
// under load.
func BenchmarkFraming(b *testing.B) {
	reply := []byte("*257\r\n:1785585600000000\r\n" + strings.Repeat(":29759760000017\r\n", 256))
	var f framing
	b.ReportAllocs()
	for b.Loop() {
		if err := f.follow(reply); err != nil {
			b.Fatal(err)
		}
	}
}
