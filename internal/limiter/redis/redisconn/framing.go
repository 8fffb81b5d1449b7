package redisconn

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// What a reply may be at most. go-redis makes room for what a reply claims to
// hold before it has arrived, and calls itself for every array within an array: a
// claim of a few bytes would end the process. The largest replies that are true
// are those to requests of tens of thousands of hits, with four integers for each,
// and that of a large cluster about its slots.
const (
	maxElements = 1 << 20 // of all its arrays
	maxBulk     = 16 << 20
	maxDepth    = 8
	maxLine     = 4 << 10
)

// framing follows the replies on a connection as they arrive, in whatever pieces,
// before go-redis reads them. It knows version 2 of Redis' protocol, which is spoken
// to all.
type framing struct {
	begun    []byte // of a line whose end has not arrived
	skip     int    // bytes of a string to come
	open     []int  // elements to come of the arrays that the line is in, the outermost first
	elements int    // of the reply, as claimed
	bulk     int    // bytes of its strings, as claimed
	said     []byte // the last reply, if it is an error
	err      error  // that ended it
}

// follow reads on. Its error says what no Redis replies, and stays.
func (f *framing) follow(p []byte) error {
	if f.err == nil {
		f.err = f.read(p)
	}
	return f.err
}

func (f *framing) read(p []byte) error {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(p))
			f.skip -= n
			p = p[n:]
			continue
		}
		end := bytes.IndexByte(p, '\n') + 1
		line := p
		if end > 0 {
			line = p[:end]
		}
		p = p[len(line):]
		if len(f.begun)+len(line) > maxLine {
			return fmt.Errorf("a line of its reply is longer than %d bytes", maxLine)
		}
		if end == 0 {
			f.begun = append(f.begun, line...)
			return nil
		}
		if len(f.begun) > 0 {
			line = append(f.begun, line...)
			f.begun = line[:0]
		}
		if err := f.line(line); err != nil {
			return err
		}
	}
	return nil
}

var errNoReply = errors.New("what it says is no reply of Redis")

// line reads a line, with its end.
func (f *framing) line(line []byte) error {
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || len(text) == 0 {
		return errNoReply
	}
	if len(f.open) == 0 {
		f.elements, f.bulk, f.said = 0, 0, f.said[:0]
	}
	switch text[0] {
	case '-':
		if len(f.open) == 0 {
			f.said = append(f.said, text[1:]...)
		}
	case '+', ':':
	case '$', '*':
		n, err := strconv.Atoi(string(text[1:]))
		switch {
		case err != nil || n < -1:
			return errNoReply
		case n == -1: // nil
		case text[0] == '$':
			return f.string(n)
		case n > 0:
			return f.array(n)
		}
	default:
		return errNoReply
	}
	f.end()
	return nil
}

// string reads the head of a string of n bytes.
func (f *framing) string(n int) error {
	if n > maxBulk-f.bulk {
		return fmt.Errorf("its reply claims strings of more than %d bytes", maxBulk)
	}
	f.bulk += n
	f.skip = n + len("\r\n")
	f.end()
	return nil
}

// array reads the head of an array of n elements, of which there is one at least.
func (f *framing) array(n int) error {
	switch {
	case n > maxElements-f.elements:
		return fmt.Errorf("its reply claims arrays of more than %d elements", maxElements)
	case len(f.open) == maxDepth:
		return fmt.Errorf("its reply has more than %d arrays within each other", maxDepth)
	}
	f.elements += n
	f.open = append(f.open, n)
	return nil
}

// end ends what is no array, and the arrays that end with it.
func (f *framing) end() {
	for n := len(f.open) - 1; n >= 0; n-- {
		f.open[n]--
		if f.open[n] > 0 {
			return
		}
		f.open = f.open[:n]
	}
}
