package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxLine is the length in bytes at which lines are cut off.
const maxLine = 128 << 10

// blockSize is the minimum size of a block in bytes. Only the last block may be smaller.
const blockSize = 64 << 10

// Source reads the lines of one log.
type Source struct {
	Name string
	file *os.File
	in   *bufio.Reader // nil before the first block
	line int64         // number of the last line that was read
}

// Open opens a log. The name - stands for the standard input.
func Open(name string) (*Source, error) {
	if name == "-" {
		return &Source{Name: "stdin", file: os.Stdin}, nil
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, not a log", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return &Source{Name: name, file: f}, nil
}

// Close closes the file.
func (s *Source) Close() error { return s.file.Close() }

// Progress returns the number of bytes that were read from the file, and the size of the file.
// Both are 0 if the size is unknown, as for a pipe.
func (s *Source) Progress() (read, size int64) {
	info, err := s.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, 0
	}
	read, _ = s.file.Seek(0, io.SeekCurrent)
	return read, info.Size()
}

// begin sets up the reader. It decompresses a gzipped log, and skips a byte order mark.
func (s *Source) begin() error {
	s.in = bufio.NewReaderSize(s.file, maxLine)
	if magic, _ := s.in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(s.in)
		if err != nil {
			return err
		}
		s.in = bufio.NewReaderSize(unzipped, maxLine)
	}
	if mark, _ := s.in.Peek(3); string(mark) == "\ufeff" {
		_, _ = s.in.Discard(len(mark))
	}
	return nil
}

// Next reads full lines into the memory of buf, and returns them with the number of the first line, from 1. Long lines
// are cut off, and the last line may lack its line break. At the end of the log, the error is io.EOF. If reading fails,
// Next first returns the lines before the error, and the next call returns the error.
func (s *Source) Next(buf []byte) (lines []byte, first int64, err error) {
	lines, first = buf[:0], s.line+1
	if s.in == nil {
		err = s.begin()
	}
	for err == nil && len(lines) < blockSize {
		var line []byte
		line, err = s.in.ReadSlice('\n')
		if len(line) > 0 {
			s.line++
		}
		lines = append(lines, line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if line, err = s.in.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) && len(line) > 0 {
				lines = append(lines, '\n')
			}
		}
	}
	if err == nil || len(lines) > 0 {
		return lines, first, nil
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil, 0, io.EOF
	case s.line == 0:
		return nil, 0, fmt.Errorf("%s: %w", s.Name, err)
	default:
		return nil, 0, fmt.Errorf("%s: after line %d: %w", s.Name, s.line, err)
	}
}
