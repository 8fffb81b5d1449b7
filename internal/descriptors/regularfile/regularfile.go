// Package regularfile opens files whose reads come to an end: no pipe that nobody
// writes to, and no device.
package regularfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

var errNotRegular = errors.New("it is no regular file, allowed are regular files and links to them")

// Open opens a regular file, or what a link to one leads to, and returns its size.
// Anything else is an error. It does not wait for who writes to a pipe.
func Open(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat() // of what was opened, which may have taken the place of a file
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, 0, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return f, info.Size(), nil
}

// Check returns the error of Open if path is there and no regular file.
func Check(path string) error {
	f, _, err := Open(path)
	if err == nil {
		f.Close()
	}
	if errors.Is(err, errNotRegular) {
		return err
	}
	return nil
}

// maxPEM bounds a file of certificates. Those of all public authorities are 300 KB.
const maxPEM = 16 << 20

var errTooLarge = errors.New("it is larger than 16 MiB, which no file of certificates is")

// ReadPEM reads a regular file of certificates or of a key, of 16 MiB at most.
func ReadPEM(path string) ([]byte, error) {
	f, _, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err == nil && len(data) > maxPEM {
		err = &fs.PathError{Op: "read", Path: path, Err: errTooLarge}
	}
	return data, err
}
