package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// outputFiles are the files that a command writes. Each is written when the command has
// done all, and until then there is what was there before: lines wait in a file without
// a name beside it.
type outputFiles struct {
	list  []*outputFile
	files []namedFile // that must not be written
}

// outputFile is one of them.
type outputFile struct {
	*bufio.Writer
	flag, target string
	waiting      *os.File
}

// namedFile is a file with a clause about it.
type namedFile struct {
	info os.FileInfo
	why  string
}

// reads notes that the command reads a file. A dash is the standard input.
func (o *outputFiles) reads(name string) {
	info, err := os.Stat(name)
	if name == "-" {
		name = "the standard input"
		info, err = os.Stdin.Stat()
	}
	if err == nil {
		o.files = append(o.files, namedFile{info, fmt.Sprintf("would replace what is read (%s)", name)})
	}
}

// create returns what is written to the file that a flag names, nil if the flag is not given.
func (o *outputFiles) create(flag, name string) (io.Writer, error) {
	if name == "" {
		return nil, nil
	}
	f := &outputFile{flag: flag, target: name}
	if err := o.open(f); err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	f.Writer = bufio.NewWriter(f.waiting)
	o.list = append(o.list, f)
	return f, nil
}

func (o *outputFiles) open(f *outputFile) error {
	target, err := filepath.Abs(f.target)
	if err != nil {
		return err
	}
	for _, other := range o.list {
		if other.target == target {
			return fmt.Errorf("%s is also the file of %s", target, other.flag)
		}
	}
	dir := filepath.Dir(target)
	old, err := os.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(dir); err != nil {
			return err
		}
	case err != nil:
		return err
	case old.Mode().IsRegular() || old.IsDir():
		if out, err := os.Stdout.Stat(); err == nil {
			o.files = append(o.files, namedFile{out, "is also the standard output"})
		}
		for _, other := range o.files {
			if os.SameFile(other.info, old) {
				return fmt.Errorf("%s %s", f.target, other.why)
			}
		}
		file, err := os.OpenFile(f.target, os.O_WRONLY, 0) // may the user?
		if err != nil {
			return err
		}
		file.Close()
	default: // a pipe or a device
		dir = ""
	}
	f.target = target
	if f.waiting, err = os.CreateTemp(dir, ".weir-*.tmp"); err != nil {
		return err
	}
	return os.Remove(f.waiting.Name())
}

// finish writes the files.
func (o *outputFiles) finish() error {
	for _, f := range o.list {
		if err := f.finish(); err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
	}
	return nil
}

func (f *outputFile) finish() error {
	if err := f.Flush(); err != nil {
		return err
	}
	if _, err := f.waiting.Seek(0, io.SeekStart); err != nil {
		return err
	}
	file, err := os.Create(f.target)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, f.waiting)
	return errors.Join(err, file.Close())
}

// close forgets what was not finished.
func (o *outputFiles) close() {
	for _, f := range o.list {
		f.waiting.Close()
	}
}
