package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
)

// report is the outcome of validate for programs.
type report struct {
	Valid    bool      `json:"valid"`
	Files    int       `json:"files"`
	Domains  int       `json:"domains"`
	Rules    int       `json:"rules"`
	Problems []finding `json:"problems"`
}

// finding is a problem, a warning or a notice.
type finding struct {
	Severity string `json:"severity"` // error, warning, or notice for a file that is not read
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`   // from 1
	Column   int    `json:"column,omitempty"` // from 1, in bytes
	Path     string `json:"path,omitempty"`   // way from the root of the file, such as descriptors[0].key
	Message  string `json:"message"`
}

func (c *checked) report() report {
	r := report{Valid: c.tree != nil && c.unread == nil, Files: len(c.files), Problems: c.findings()}
	if c.tree != nil {
		r.Domains, r.Rules = c.tree.Domains(), c.tree.Rules()
	}
	return r
}

// findings lists all that validate says.
func (c *checked) findings() []finding {
	found := []finding{}
	add := func(severity string, problems descriptors.Problems) {
		for _, p := range problems {
			found = append(found, finding{severity, p.File, p.Line, p.Column, p.Path, p.Message})
		}
	}
	for _, u := range c.unread {
		found = append(found, finding{Severity: "error", File: u.path, Message: u.err.Error()})
	}
	if problems, ok := errors.AsType[descriptors.Problems](c.wrong); ok {
		add("error", problems)
	} else if c.wrong != nil {
		found = append(found, finding{Severity: "error", Message: c.wrong.Error()})
	}
	if c.tree != nil {
		add("warning", c.tree.Warnings())
	}
	for _, name := range c.skipped {
		found = append(found, finding{Severity: "notice", File: name, Message: "skipped, " + descriptors.WhySkipped(name)})
	}
	return found
}

// annotate writes workflow commands of GitHub, one for each finding. Nothing that comes
// from files is at the start of a line, or could end a command.
func (c *checked) annotate(w io.Writer) {
	for _, f := range c.findings() {
		fmt.Fprintln(w, f.annotation())
	}
	if c.tree != nil && c.unread == nil {
		fmt.Fprintln(w, c.summary())
	}
}

// What workflow commands escape in messages, and in properties.
var (
	inMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	inProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func (f finding) annotation() string {
	var properties []string
	add := func(name, value string) { properties = append(properties, name+"="+inProperty.Replace(value)) }
	if f.File != "" && f.File != standardInput {
		add("file", plaintext.Line(relative(f.File)))
	}
	if f.Line > 0 {
		add("line", fmt.Sprint(f.Line))
	}
	if f.Column > 0 {
		add("col", fmt.Sprint(f.Column))
	}
	message := plaintext.Lines(f.Message)
	if f.Path != "" {
		message = plaintext.Line(f.Path) + ": " + message
	}
	head := "::" + f.Severity
	if len(properties) > 0 {
		head += " " + strings.Join(properties, ",")
	}
	return head + "::" + inMessage.Replace(message)
}

// relative returns a path as seen from the working directory, with slashes, if it is
// below that.
func relative(path string) string {
	if at, err := filepath.Abs("."); err == nil && filepath.IsAbs(path) {
		if inside, err := filepath.Rel(at, path); err == nil && filepath.IsLocal(inside) {
			path = inside
		}
	}
	return filepath.ToSlash(filepath.Clean(path))
}
