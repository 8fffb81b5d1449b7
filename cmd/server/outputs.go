package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// outputFiles are the files that a command writes. Each has its name once the command has done all, and
// until then there is what was there before.
type outputFiles struct {
	inputs []string // files that the command reads, which must not be written; a dash is the standard input
	list   []*outputFile
}

// outputFile is one of them.
type outputFile struct {
	*bufio.Writer
	file   *os.File
	flag   string
	target string
	temp   string // beside target until it is renamed, "" if target is written itself, such as a pipe
}

// create returns the file that a flag names, nil if the flag is not given.
func (o *outputFiles) create(flag, name string) (*outputFile, error) {
	if name == "" {
		return nil, nil
	}
	f := &outputFile{flag: flag, target: name}
	if err := o.open(f); err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	f.Writer = bufio.NewWriter(f.file)
	o.list = append(o.list, f)
	return f, nil
}

func (o *outputFiles) open(f *outputFile) error {
	old, err := os.Stat(f.target)
	exists := err == nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case old.Mode().IsRegular():
		if err := o.mayReplace(f.target, old); err != nil {
			return err
		}
	default: // a pipe or a device
		f.file, err = os.OpenFile(f.target, os.O_WRONLY, 0)
		return err
	}
	if f.target, err = resolved(f.target, exists); err != nil {
		return err
	}
	for _, other := range o.list {
		if other.target == f.target {
			return fmt.Errorf("%s is also the file of %s", f.target, other.flag)
		}
	}
	f.temp = filepath.Join(filepath.Dir(f.target), fmt.Sprintf(".weir-%016x.tmp", rand.Uint64())) //nolint:gosec // G404: no secret
	f.file, err = os.OpenFile(f.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)                   //nolint:gosec // G302: as os.Create, umask says who may read
	if err != nil {
		return err
	}
	if exists {
		err = f.file.Chmod(old.Mode().Perm())
	}
	if err != nil {
		f.discard()
	}
	return err
}

// mayReplace returns an error for a file that is read, or that the user may not write.
func (o *outputFiles) mayReplace(name string, old os.FileInfo) error {
	for _, input := range o.inputs {
		stat := func() (os.FileInfo, error) { return os.Stat(input) }
		if input == "-" {
			input, stat = "the standard input", os.Stdin.Stat
		}
		if info, err := stat(); err == nil && os.SameFile(info, old) {
			return fmt.Errorf("%s would replace what is read (%s)", name, input)
		}
	}
	if info, err := os.Stdout.Stat(); err == nil && os.SameFile(info, old) {
		return fmt.Errorf("%s is also the standard output", name)
	}
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return file.Close()
}

// resolved returns the path of a file without links, which are to stay.
func resolved(name string, exists bool) (string, error) {
	if exists {
		path, err := filepath.EvalSymlinks(name)
		if err != nil {
			return "", err
		}
		return filepath.Abs(path)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(name))
	if err != nil {
		return "", err
	}
	dir, err = filepath.Abs(dir)
	return filepath.Join(dir, filepath.Base(name)), err
}

// finish gives the files their names.
func (o *outputFiles) finish() error {
	for _, f := range o.list {
		if err := errors.Join(f.Flush(), f.file.Close()); err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
	}
	for _, f := range o.list {
		if f.temp == "" {
			continue
		}
		if err := os.Rename(f.temp, f.target); err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
		f.temp = ""
	}
	return nil
}

// discard removes what has not got its name.
func (o *outputFiles) discard() {
	for _, f := range o.list {
		f.discard()
	}
}

func (f *outputFile) discard() {
	_ = f.file.Close()
	if f.temp != "" {
		_ = os.Remove(f.temp)
	}
}
