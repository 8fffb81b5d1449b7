package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Files that flags name are written when all is done, so that a command that fails leaves
// them as they were.

// apart returns an error if the file that a flag names is one of those that the command
// reads or writes besides.
func apart(flag, name string, others ...string) error {
	at, err := os.Stat(name) // which may not be there yet
	old := err == nil && at.Mode().IsRegular()
	for _, other := range others {
		info, err := os.Stat(other)
		if name != "" && other != "" && filepath.Clean(other) == filepath.Clean(name) || old && err == nil && os.SameFile(info, at) {
			return fmt.Errorf("%s: %s is the same file as %s", flag, name, other)
		}
	}
	return nil
}

// writeFile writes the file that a flag names, if it names one.
func writeFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
