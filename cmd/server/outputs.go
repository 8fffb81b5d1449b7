package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// outputFiles are the files that a command writes when all is done, so that one that fails
// leaves them as they were.
type outputFiles struct {
	list []*outputFile
	read []string // files that the command reads; a dash is the standard input
}

// outputFile is one of them.
type outputFile struct {
	flag  string
	file  *os.File
	isNew bool
	text  *os.File // a temporary file with what is to be written
}

// create returns what is written to the file that a flag names, nil if the flag is not given.
func (o *outputFiles) create(flag, name string) (io.Writer, error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.CreateTemp("", "weir")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(text.Name()) // it lives until it is closed
	f := &outputFile{flag: flag, text: text}
	o.list = append(o.list, f)
	_, missing := os.Stat(name)
	f.isNew = missing != nil
	f.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666) //nolint:gosec // G302: as os.Create makes files
	if err == nil {
		err = o.check(f, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return text, nil
}

// check refuses a file that the command reads or writes already.
func (o *outputFiles) check(f *outputFile, name string) error {
	info, err := f.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	same := func(other *os.File) bool {
		at, err := other.Stat()
		return err == nil && os.SameFile(at, info)
	}
	if same(os.Stdout) {
		return fmt.Errorf("%s is also the standard output", name)
	}
	for _, other := range o.list {
		if other != f && same(other.file) {
			return fmt.Errorf("%s is also the file of %s", name, other.flag)
		}
	}
	for _, read := range o.read {
		at, err := os.Stat(read)
		if err == nil && os.SameFile(at, info) || read == "-" && same(os.Stdin) {
			return fmt.Errorf("%s is also an input (%s)", name, read)
		}
	}
	return nil
}

// finish writes the files.
func (o *outputFiles) finish() error {
	for _, f := range o.list {
		_, err := f.text.Seek(0, io.SeekStart)
		if info, statErr := f.file.Stat(); err == nil && statErr == nil && info.Mode().IsRegular() {
			err = f.file.Truncate(0)
		}
		if err == nil {
			_, err = io.Copy(f.file, f.text)
		}
		if err = errors.Join(err, f.file.Close()); err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
		f.isNew = false
	}
	return nil
}

// close removes files that were not written.
func (o *outputFiles) close() {
	for _, f := range o.list {
		f.text.Close()
		if f.file != nil {
			if f.file.Close(); f.isNew {
				_ = os.Remove(f.file.Name())
			}
		}
	}
}
