package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// outputFile is a file that a command writes when all is done, so that one that fails leaves
// it as it was. Until then a temporary file without a name has what is to be in it.
type outputFile struct {
	*os.File
	name string
}

// newOutput returns the file that a flag names, nil if the flag is not given. It must not be
// one of those that the command reads or writes besides.
func newOutput(flag, name string, others []string) (*outputFile, error) {
	if name == "" {
		return nil, nil
	}
	at, err := os.Stat(name) // which may not be there yet
	old := err == nil && at.Mode().IsRegular()
	for _, other := range others {
		info, err := os.Stat(other)
		if other != "" && filepath.Clean(other) == filepath.Clean(name) || old && err == nil && os.SameFile(info, at) {
			return nil, fmt.Errorf("%s: %s is the same file as %s", flag, name, other)
		}
	}
	text, err := os.CreateTemp("", "weir")
	if err != nil {
		return nil, err
	}
	return &outputFile{text, name}, os.Remove(text.Name()) // it lives until it is closed
}

// finish writes the file, if there is one.
func (o *outputFile) finish() error {
	if o == nil {
		return nil
	}
	defer o.Close()
	f, err := os.Create(o.name)
	if err != nil {
		return err
	}
	_, err = o.Seek(0, io.SeekStart)
	if err == nil {
		_, err = io.Copy(f, o)
	}
	return errors.Join(err, f.Close())
}
