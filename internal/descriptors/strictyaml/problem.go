package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/descriptors/plaintext"
)

// Problem is an error or warning about a file.
type Problem struct {
	File    string `json:"file,omitempty"`    // name of the file, may be empty
	Line    int    `json:"line,omitempty"`    // counted from 1, or 0 if unknown
	Column  int    `json:"column,omitempty"`  // counted in bytes from 1, or 0 if unknown
	Path    string `json:"path,omitempty"`    // path from the root of the file, such as descriptors[0].key
	Message string `json:"message"`           // the error and the allowed values
	Excerpt string `json:"excerpt,omitempty"` // lines of the file around a syntax error, with their numbers
}

// String returns the problem as file:line:column: path: message. It omits unknown fields and the
// excerpt, escapes control characters and cuts long fields.
func (p Problem) String() string {
	const maxShown = 1 << 10 // because each field may quote a file
	var b strings.Builder
	b.WriteString(plaintext.Line(plaintext.Cut(p.File, maxShown)))
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
	}
	for _, s := range []string{plaintext.Line(plaintext.Cut(p.Path, maxShown)), plaintext.Lines(plaintext.Cut(p.Message, maxShown))} {
		if s != "" && b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(s)
	}
	return b.String()
}

// Problems has the problems of a set of files.
type Problems []Problem

// Error returns the problems, one per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// First returns the first n problems and, if there are more, a problem with the number of the
// others. The result shares memory with ps only if the result is ps itself.
func (ps Problems) First(n int) Problems {
	if len(ps) <= n {
		return ps
	}
	return append(slices.Clone(ps[:n]), Problem{Message: fmt.Sprintf("and %d more", len(ps)-n)})
}

// Sort sorts the problems by location.
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

// Position is a line and column in a file, counted from 1. A node with the zero Position does
// not come from the text of a file.
type Position struct{ Line, Column int }

// Step is a step from a YAML node to a field of a mapping or, if Field is empty, to an item of a
// list.
type Step struct {
	Field string
	Index int
}

// Reporter collects the problems of one file. The code that walks the file records the path of the
// current node with Enter and Leave. The path is formatted only for problems.
type Reporter struct {
	File     string // used in problems
	Problems Problems
	Warnings Problems // about valid input that is probably a mistake

	path  []Step
	found int              // number of problems, including muted and repeated problems
	seen  map[Problem]bool // problems reported so far, without the path if they have a line
	muted bool             // more problems would only be consequences of an earlier one
}

// Problem reports an error at a position. If aliases repeat the error, it is reported once, with
// the path of the first use. Errors without a position are distinguished by their paths.
func (r *Reporter) Problem(at Position, format string, args ...any) {
	r.found++
	r.Problems = r.addNew(r.Problems, at, fmt.Sprintf(format, args...))
}

// Warn is like Problem, but adds a warning.
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

// Here returns a problem without a message for the current node, which is at the given position.
func (r *Reporter) Here(at Position) Problem {
	return Problem{File: r.File, Line: at.Line, Column: at.Column, Path: r.Path()}
}

// ProblemIn reports an error in a field of the current node.
func (r *Reporter) ProblemIn(field string, at Position, format string, args ...any) {
	r.Enter(Step{Field: field})
	r.Problem(at, format, args...)
	r.Leave()
}

// WarnIn adds a warning about a field of the current node.
func (r *Reporter) WarnIn(field string, at Position, format string, args ...any) {
	r.Enter(Step{Field: field})
	r.Warn(at, format, args...)
	r.Leave()
}

// Found returns the number of problems so far, including repetitions that are not reported. If
// the number grows while a node is read, the node is invalid.
func (r *Reporter) Found() int { return r.found }

// Enter moves from the current node to its field or item s.
func (r *Reporter) Enter(s Step) { r.path = append(r.path, s) }

// Leave returns to the node before the last Enter.
func (r *Reporter) Leave() { r.path = r.path[:len(r.path)-1] }

// Path returns the path from the root to the current node, such as descriptors[0].key.
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
