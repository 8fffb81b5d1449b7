package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/server"
	"weir/internal/settings"
)

// validation is the command validate.
type validation struct {
	Paths []string `arg:"" name:"path" help:"Files and directories of rules. Directories are read as serve reads them, and - is the standard input. What is valid, but hardly meant, is told on stderr."`
	settings.Reading
	Output string `enum:"text,json,github" default:"text" help:"Format of the report: text, json, or github, which GitHub shows in pull requests."`
}

// run checks the rules as serve would load them. What cannot be read keeps
// nothing else from being checked.
func (v validation) run(stdout, stderr io.Writer) int {
	found := v.check()
	switch v.Output {
	case "json":
		_ = writeReport(stdout, found.report()) // stdout keeps the error
	case "github":
		found.annotate(stdout)
	default:
		found.writeText(stdout, stderr)
	}
	switch {
	case found.unread != nil:
		return exitUsage
	case found.wrong != nil:
		return exitFailed
	default:
		return exitOK
	}
}

// checked is what validate found.
type checked struct {
	files   []descriptors.File
	skipped []string
	unread  []unread
	wrong   error             // descriptors.Problems, or that there is no file
	tree    *descriptors.Tree // nil if something is wrong
}

// unread is a path that could not be read.
type unread struct {
	path string
	err  error
}

func (v validation) check() *checked {
	c := new(checked)
	for _, path := range v.Paths {
		files, skipped, err := read(path)
		if err != nil {
			c.unread = append(c.unread, unread{path, err})
		}
		c.files, c.skipped = append(c.files, files...), append(c.skipped, skipped...)
	}
	switch {
	case len(c.files) > 0:
		c.tree, c.wrong = descriptors.Load(c.files, server.RuleOptions(v.Reading))
	case c.unread == nil:
		c.wrong = descriptors.NoFiles(v.Paths...)
	}
	return c
}

// writeText writes every problem on a line of its own. What could not be read, skipped
// files and warnings go to stderr.
func (c *checked) writeText(stdout, stderr io.Writer) {
	for _, name := range c.skipped {
		fmt.Fprintf(stderr, "%s: skipped, %s\n", plaintext.Line(name), descriptors.WhySkipped(name))
	}
	if c.wrong != nil {
		fmt.Fprintln(stdout, c.wrong)
	}
	if c.unread != nil {
		var errs []error
		for _, u := range c.unread {
			errs = append(errs, u.err)
		}
		fmt.Fprintf(stderr, "weir: %v\n", errors.Join(errs...))
	}
	if c.tree == nil || c.unread != nil {
		return
	}
	for _, w := range c.tree.Warnings() {
		fmt.Fprintf(stderr, "warning: %s\n", w)
	}
	fmt.Fprintln(stdout, c.summary())
}

// summary says in a line what is valid.
func (c *checked) summary() string {
	return fmt.Sprintf("valid: files=%d domains=%d rules=%d", len(c.files), c.tree.Domains(), c.tree.Rules())
}

// standardInput is what problems call the standard input.
const standardInput = "stdin"

// read reads what a path names. A dash names the standard input.
func read(path string) (files []descriptors.File, skipped []string, err error) {
	if path != "-" {
		return descriptors.ReadFiles(path)
	}
	file, err := descriptors.ReadStream(os.Stdin, standardInput)
	return []descriptors.File{file}, nil, err
}
