package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"weir/internal/app"
	"weir/internal/descriptors"
	"weir/internal/settings"
)

// validation is the command validate.
type validation struct {
	Paths []string `arg:"" name:"path" help:"Files and directories of rules. Directories are read as serve reads them, and - is the standard input. What is valid, but hardly meant, is told on stderr."`
	settings.Reading
}

// run checks the rules as serve would load them. What cannot be read keeps
// nothing else from being checked.
func (v validation) run(stdout, stderr io.Writer) int {
	var files []descriptors.File
	var unread error
	for _, path := range v.Paths {
		found, skipped, err := read(path)
		for _, name := range skipped {
			fmt.Fprintf(stderr, "%s: skipped, %s\n", name, descriptors.WhySkipped(name))
		}
		files, unread = append(files, found...), errors.Join(unread, err)
	}
	var tree *descriptors.Tree
	var err error
	switch {
	case len(files) > 0:
		tree, err = descriptors.Load(files, app.RuleOptions(v.Reading))
	case unread == nil:
		err = descriptors.NoFiles(v.Paths...)
	}
	if err != nil {
		fmt.Fprintln(stdout, err) // every problem on a line of its own
	}
	switch {
	case unread != nil:
		fmt.Fprintf(stderr, "weir: %v\n", unread)
		return exitUsage
	case err != nil:
		return exitFailed
	}
	for _, w := range tree.Warnings() {
		fmt.Fprintf(stderr, "warning: %s\n", w)
	}
	fmt.Fprintf(stdout, "valid: files=%d domains=%d rules=%d\n", len(files), tree.Domains(), tree.Rules())
	return exitOK
}

// read reads what a path names. A dash names the standard input.
func read(path string) (files []descriptors.File, skipped []string, err error) {
	if path != "-" {
		return descriptors.ReadFiles(path)
	}
	file, err := descriptors.ReadStream(os.Stdin, "stdin")
	return []descriptors.File{file}, nil, err
}
