package descriptors

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong in a rule file.
type Problem struct {
	File         string // as named in File, may be empty
	Line, Column int    // from 1, 0 if unknown
	Path         string // way from the root of the file, such as descriptors[0].key
	Message      string // what is wrong, what is allowed
}

// String is the problem as file:line:column: path: message, without what is
// unknown.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
	}
	for _, s := range []string{p.Path, p.Message} {
		if s != "" && b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(s)
	}
	return b.String()
}

// Problems is every problem of a set of rule files, sorted by place.
type Problems []Problem

// Error lists the problems, one per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sort() {
	slices.SortFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Message, b.Message),
		)
	})
}

// position is a place in a file, counted from 1.
type position struct{ line, column int }

// step leads from a YAML node to a node in it: to a field of a mapping or, if
// field is empty, to a place in a list.
type step struct {
	field string
	index int
}

// reporter collects the problems of one file. Whoever walks the file keeps
// path, so that it is spelled only where something is wrong.
type reporter struct {
	file     string
	path     []step
	problems Problems
	found    int              // how often something was wrong, repetitions included
	seen     map[Problem]bool // by all but the path
	muted    bool             // what else is found would only follow from an earlier problem
}

// problem reports something at a position. What an alias repeats is reported
// once, with the path of its first use.
func (r *reporter) problem(at position, format string, args ...any) {
	r.found++
	p := Problem{File: r.file, Line: at.line, Column: at.column, Message: fmt.Sprintf(format, args...)}
	if r.muted || r.seen[p] {
		return
	}
	if r.seen == nil {
		r.seen = make(map[Problem]bool)
	}
	r.seen[p] = true
	p.Path = r.spellPath()
	r.problems = append(r.problems, p)
}

// problemIn reports something about a field of the current node.
func (r *reporter) problemIn(field string, at position, format string, args ...any) {
	r.enter(step{field: field})
	defer r.leave()
	r.problem(at, format, args...)
}

func (r *reporter) enter(s step) { r.path = append(r.path, s) }
func (r *reporter) leave()       { r.path = r.path[:len(r.path)-1] }

func (r *reporter) spellPath() string {
	var b strings.Builder
	for _, s := range r.path {
		switch {
		case s.field == "":
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case b.Len() == 0:
			b.WriteString(s.field)
		default:
			b.WriteString("." + s.field)
		}
	}
	return b.String()
}
