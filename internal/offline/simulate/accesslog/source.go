package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// MaxLine is the longest line that is read, in bytes without its end.
const MaxLine = BlockSize - 1

// BlockSize is how many bytes a block of lines has at most.
const BlockSize = 128 << 10

// Source reads the lines of one log.
type Source struct {
	Name string
	Size int64 // in bytes of the file, 0 if it is not known

	file   io.ReadCloser
	read   atomic.Int64
	in     io.Reader
	rest   []byte // of a line that the last block did not end
	line   int64  // lines before rest
	long   bool   // rest is of a line that is too long, and dropped
	failed error
}

// Open opens a log. A dash names the standard input.
func Open(name string) (*Source, error) {
	s := &Source{Name: name}
	if name == "-" {
		s.Name, s.file = "stdin", os.Stdin
		return s, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory, not a log", name)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	if info.Mode().IsRegular() {
		s.Size = info.Size()
	}
	s.file = f
	return s, nil
}

// Close closes the file.
func (s *Source) Close() error { return s.file.Close() }

// Read returns how many bytes of the file were read. It may be called at any time.
func (s *Source) Read() int64 { return s.read.Load() }

// counting counts what is read of the file.
type counting struct{ s *Source }

func (c counting) Read(p []byte) (int, error) {
	n, err := c.s.file.Read(p)
	c.s.read.Add(int64(n))
	return n, err
}

// begin finds out whether the log is compressed, by its first bytes.
func (s *Source) begin() error {
	b := bufio.NewReaderSize(counting{s}, 64<<10)
	s.in = b
	if magic, _ := b.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return nil
	}
	unzipped, err := gzip.NewReader(b)
	s.in = unzipped
	return err
}

// Block is whole lines, the last of which may lack its end.
type Block struct {
	Data  []byte
	First int64 // number of the first line, from 1
	Long  int64 // number of a line that was too long and is left out, after Data; 0: there is none
}

// Next reads the next block into buf, which has a capacity of BlockSize. The error is
// io.EOF at the end. What can be read before another error, such as that of a file that is
// cut off, is returned first: a block with an error is empty.
func (s *Source) Next(buf []byte) (b Block, err error) {
	if s.in == nil {
		s.failed = s.begin()
	}
	buf = append(buf[:0], s.rest...)
	s.rest = s.rest[:0]
	for len(buf) < BlockSize && s.failed == nil {
		var n int
		n, s.failed = s.in.Read(buf[len(buf):BlockSize])
		buf = buf[:len(buf)+n]
	}
	if s.line == 0 {
		buf = bytes.TrimPrefix(buf, byteOrderMark)
	}
	b.First = s.line + 1
	if s.failed != nil {
		b.Data = s.skipLong(buf)
		if len(b.Data) > 0 {
			s.line += int64(bytes.Count(b.Data, newline))
			if b.Data[len(b.Data)-1] != '\n' {
				s.line++
			}
			return b, nil
		}
		switch {
		case errors.Is(s.failed, io.EOF):
			return b, io.EOF
		case s.line == 0:
			return b, fmt.Errorf("%s: %w", s.Name, s.failed)
		default:
			return b, fmt.Errorf("%s: after line %d: %w", s.Name, s.line, s.failed)
		}
	}
	b.Data = s.skipLong(buf)
	end := bytes.LastIndexByte(b.Data, '\n') + 1
	if end == 0 && len(b.Data) == BlockSize {
		s.line++
		b.Long, b.Data, s.long = s.line, nil, true
		return b, nil
	}
	s.rest = append(s.rest, b.Data[end:]...)
	b.Data = b.Data[:end]
	s.line += int64(bytes.Count(b.Data, newline))
	return b, nil
}

var (
	newline       = []byte{'\n'}
	byteOrderMark = []byte("\ufeff")
)

// skipLong drops the rest of a line that is too long, if the last block ended in one.
func (s *Source) skipLong(buf []byte) []byte {
	if !s.long {
		return buf
	}
	end := bytes.IndexByte(buf, '\n') + 1
	if end == 0 {
		return buf[:0]
	}
	s.long = false
	return buf[end:]
}
