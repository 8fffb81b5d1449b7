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

// outputFiles are the files that a command writes. Each is written beside its target, and
// takes its place when the command has done all.
type outputFiles struct {
	list []*outputFile
	read []string // files that the command reads; a dash is the standard input
}

// outputFile is one of them.
type outputFile struct {
	*bufio.Writer
	flag, target string
	beside       string // the file until then; "" if the target is a pipe or a device
	file         *os.File
}

// create returns what is written to the file that a flag names, nil if the flag is not given.
func (o *outputFiles) create(flag, name string) (io.Writer, error) {
	if name == "" {
		return nil, nil
	}
	f, err := o.open(flag, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	o.list = append(o.list, f)
	return f, nil
}

func (o *outputFiles) open(flag, name string) (*outputFile, error) {
	target, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	for _, other := range o.list {
		if other.target == target {
			return nil, fmt.Errorf("%s is also the file of %s", target, other.flag)
		}
	}
	old, err := os.Stat(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f := &outputFile{flag: flag, target: target}
	if old != nil {
		if f.file, err = os.OpenFile(name, os.O_WRONLY, 0); err != nil { // may the user?
			return nil, err
		}
		f.Writer = bufio.NewWriter(f.file)
		if !old.Mode().IsRegular() {
			return f, nil
		}
		f.file.Close()
		if f.target, err = filepath.EvalSymlinks(target); err == nil {
			err = o.refuse(name, old)
		}
	} else {
		_, err = os.Stat(filepath.Dir(target))
	}
	if err != nil {
		return nil, err
	}
	f.beside = filepath.Join(filepath.Dir(f.target), fmt.Sprintf(".%s.%d.tmp", filepath.Base(f.target), os.Getpid()))
	if f.file, err = os.OpenFile(f.beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err == nil && old != nil { //nolint:gosec // G302: as os.Create makes files
		err = f.file.Chmod(old.Mode().Perm())
	}
	f.Writer = bufio.NewWriter(f.file)
	return f, err
}

// refuse is the error of a file that must not be written.
func (o *outputFiles) refuse(name string, file os.FileInfo) error {
	if out, err := os.Stdout.Stat(); err == nil && os.SameFile(out, file) {
		return fmt.Errorf("%s is also the standard output", name)
	}
	for _, read := range o.read {
		info, err := os.Stat(read)
		if read == "-" {
			read = "the standard input"
			info, err = os.Stdin.Stat()
		}
		if err == nil && os.SameFile(info, file) {
			return fmt.Errorf("%s would replace what is read (%s)", name, read)
		}
	}
	return nil
}

// finish gives the files their names.
func (o *outputFiles) finish() error {
	for _, f := range o.list {
		err := errors.Join(f.Flush(), f.file.Close())
		if err == nil && f.beside != "" {
			err = os.Rename(f.beside, f.target)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
	}
	return nil
}

// close drops what was not finished.
func (o *outputFiles) close() {
	for _, f := range o.list {
		f.file.Close()
		if f.beside != "" {
			_ = os.Remove(f.beside)
		}
	}
}
