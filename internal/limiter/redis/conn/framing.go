package conn

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
)

// MaxReply limits the total size that the replies to one call claim, in bytes. go-redis allocates
// the claimed size of a reply before the reply has arrived, and recurses into nested arrays, so a
// few bytes could crash the process. Valid replies are far smaller. The largest of them have five
// integers for each of thousands of hits, the slots of a cluster, or the reports of many servers.
const MaxReply = 32 << 20

const (
	perArray   = 512      // bytes counted for each array, some of them on the stack
	perElement = 64       // bytes counted for each element of an array
	maxLine    = 64 << 10 // maximum bytes of a line, and of a sentinel's reply
)

var (
	errNoReply     = errors.New("the reply is invalid in Redis' protocol")
	errReplyTooBig = errors.New("the reply of Redis claims too many bytes or elements")
)

// sentinelReplies are the valid replies to the commands that go-redis sends to sentinels.
// go-redis uses the parts of these replies without checking the number of parts.
var sentinelReplies = []struct {
	command string // prefix of the command
	pattern *regexp.Regexp
}{
	{"*3\r\n$8\r\nsentinel\r\n$23\r\nget-master-addr-by-name\r\n", regexp.MustCompile(`^(-.*|\*-1|_|\*2(\r\n\$\d+\r\n[^\r\n]+){2})\r\n$`)},
	{"*3\r\n$8\r\nsentinel\r\n$9\r\nsentinels\r\n", regexp.MustCompile(``)},
	{"*3\r\n$9\r\nsubscribe\r\n", regexp.MustCompile(`^(-.*|\+PONG|\*2\r\n\$4\r\npong\r\n\$0\r\n|[*>]3\r\n\$\d+\r\n(` +
		`subscribe\r\n\$\d+\r\n[^\r\n]*\r\n:\d+|message\r\n\$\d+\r\n[^\r\n]*\r\n\$\d+\r\n\S+( \S+){4,}))\r\n$`)},
}

// framing parses the replies on a connection before go-redis reads them. It accepts version 2 of
// Redis' protocol and the parts of version 3 that sentinels use, because go-redis always uses
// version 3 with sentinels.
type framing struct {
	line []byte // received part of an incomplete line
	skip int    // remaining bytes of a string
	left int    // remaining elements of the reply, on all levels
	size int    // claimed size of the replies to the current call, in bytes

	pattern *regexp.Regexp // pattern of a sentinel's reply, or nil
	text    []byte         // received part of that reply
}

// expect prepares f for the reply to a command.
func (f *framing) expect(command []byte) {
	for _, r := range sentinelReplies {
		if bytes.HasPrefix(command, []byte(r.command)) {
			f.pattern = r.pattern
		}
	}
}

// follow parses the next bytes of the replies, which may end anywhere. After an error, f must
// not be used.
func (f *framing) follow(p []byte) error {
	for len(p) > 0 {
		n := min(f.skip, len(p))
		if f.skip -= n; n == 0 {
			end := bytes.IndexByte(p, '\n') + 1
			if n = end; end == 0 {
				n = len(p)
			}
			if f.line = append(f.line, p[:n]...); len(f.line) > maxLine {
				return errNoReply
			}
			if end > 0 {
				if err := f.element(f.line); err != nil {
					return err
				}
				f.line = f.line[:0]
			}
		}
		if f.pattern != nil {
			f.text = append(f.text, p[:n]...)
			isComplete := f.left == 0 && f.skip == 0 && len(f.line) == 0
			if len(f.text) > maxLine || isComplete && !f.pattern.Match(f.text) {
				return errNoReply
			}
			if isComplete {
				f.text = f.text[:0]
			}
		}
		p = p[n:]
	}
	return nil
}

// element parses the first line of a reply, or of an array's element.
func (f *framing) element(line []byte) error {
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || len(line) == 0 {
		return errNoReply
	}
	f.left = max(f.left-1, 0)
	own, each, elements := perArray, perElement, 1
	switch line[0] {
	case '+', '-', ':', '_':
		return nil
	case '$':
		own, each, elements = len("\r\n"), 1, 0
	case '%':
		each, elements = 2*perElement, 2
	case '*', '>':
	default:
		return errNoReply
	}
	n, err := strconv.Atoi(string(line[1:]))
	switch {
	case err != nil || n < -1:
		return errNoReply
	case n == -1: // nil
		return nil
	case n > (MaxReply-f.size-own)/each:
		return errReplyTooBig
	}
	f.size += own + n*each
	f.left += n * elements
	if elements == 0 {
		f.skip = n + len("\r\n")
	}
	return nil
}
