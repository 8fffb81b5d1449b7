package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/descriptors/plaintext"
)

// Problem is one thing that is wrong in a file.
type Problem struct {
	File    string `json:"file,omitempty"`   // as its reader named it, may be empty
	Line    int    `json:"line,omitempty"`   // from 1, 0 if unknown
	Column  int    `json:"column,omitempty"` // likewise, in bytes
	Path    string `json:"path,omitempty"`   // way from the root of the file, such as descriptors[0].key
	Message string `json:"message"`          // what is wrong, what is allowed
}

// String is the problem as file:line:column: path: message, without what is
// unknown and without control characters. Long parts are cut.
func (p Problem) String() string {
	const maxPart = 1 << 10 // any part may quote a file
	var b strings.Builder
	b.WriteString(plaintext.Line(plaintext.Cut(p.File, maxPart)))
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
	}
	for _, s := range []string{plaintext.Line(plaintext.Cut(p.Path, maxPart)), plaintext.Lines(plaintext.Cut(p.Message, maxPart))} {
		if s != "" && b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(s)
	}
	return b.String()
}

// Problems is every problem of a set of files.
type Problems []Problem

// Error lists the problems, one per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// First is the first n problems, and one more that counts the others if there
// are any. It keeps no memory of those.
func (ps Problems) First(n int) Problems {
	if len(ps) <= n {
		return ps
	}
	return append(slices.Clone(ps[:n]), Problem{Message: fmt.Sprintf("and %d more", len(ps)-n)})
}

// Sort sorts the problems by place.
func (ps Problems) Sort() {
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

// Position is a place in a file, counted from 1. What does not come from the text
// of a file has none, it is the zero Position.
type Position struct{ Line, Column int }

// Step leads from a YAML node to a node in it: to a field of a mapping or, if
// Field is empty, to a place in a list.
type Step struct {
	Field string
	Index int
}

// Reporter collects the problems of one file. The code that walks the file
// keeps the way with Enter and Leave, so that it is spelled only where something is wrong.
type Reporter struct {
	File     string // as problems shall name it
	Problems Problems
	Warnings Problems // of what is allowed, but hardly meant

	path  []Step
	found int              // problems, also muted and repeated ones
	seen  map[Problem]bool // by all but the path, if they have a line
	muted bool             // what else is found would only follow from an earlier problem
}

// Problem reports something at a position. What an alias repeats is reported
// once, with the path of its first use; what has no position is told apart by its
// path.
func (r *Reporter) Problem(at Position, format string, args ...any) {
	r.found++
	r.Problems = r.addNew(r.Problems, at, fmt.Sprintf(format, args...))
}

// Warn notes something at a position that is no problem, as Problem does.
func (r *Reporter) Warn(at Position, format string, args ...any) {
	r.Warnings = r.addNew(r.Warnings, at, fmt.Sprintf(format, args...))
}

func (r *Reporter) addNew(list Problems, at Position, message string) Problems {
	p := r.Here(at)
	p.Message = message
	known := p
	if at != (Position{}) {
		known.Path = ""
	}
	if r.muted || r.seen[known] {
		return list
	}
	if r.seen == nil {
		r.seen = make(map[Problem]bool)
	}
	r.seen[known] = true
	return append(list, p)
}

// Here is the place of a problem of the current node at a position.
func (r *Reporter) Here(at Position) Problem {
	return Problem{File: r.File, Line: at.Line, Column: at.Column, Path: r.Path()}
}

// ProblemIn reports something about a field of the current node.
func (r *Reporter) ProblemIn(field string, at Position, format string, args ...any) {
	r.Enter(Step{Field: field})
	r.Problem(at, format, args...)
	r.Leave()
}

// WarnIn warns of a field of the current node.
func (r *Reporter) WarnIn(field string, at Position, format string, args ...any) {
	r.Enter(Step{Field: field})
	r.Warn(at, format, args...)
	r.Leave()
}

// Found is how many problems were found so far, also those that are not
// reported again. If it grows, something is wrong with a part of the file.
func (r *Reporter) Found() int { return r.found }

// Enter makes the node that a step leads to the current one.
func (r *Reporter) Enter(s Step) { r.path = append(r.path, s) }

// Leave goes back to where the last step came from.
func (r *Reporter) Leave() { r.path = r.path[:len(r.path)-1] }

// Path is the way from the root of the file to the current node, such as
// descriptors[0].key.
func (r *Reporter) Path() string {
	var b strings.Builder
	for _, s := range r.path {
		switch {
		case s.Field == "":
			b.WriteString("[" + strconv.Itoa(s.Index) + "]")
		case b.Len() == 0:
			b.WriteString(s.Field)
		default:
			b.WriteString("." + s.Field)
		}
	}
	return b.String()
}
