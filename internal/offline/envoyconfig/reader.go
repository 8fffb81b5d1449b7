package envoyconfig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"weir/internal/descriptors/plaintext"
	"weir/internal/descriptors/spelling"
	"weir/internal/descriptors/strictyaml"
)

// reader reads one file.
type reader struct {
	strictyaml.Decoder
	notes         []Note
	noted         map[Note]bool
	messageValues int // how many more values messages may have
	sourceCluster string
	needs         map[string]bool
}

// problem reports something that is wrong at a value.
func (r *reader) problem(at node, format string, args ...any) {
	p := r.problemAt(at)
	p.Message = fmt.Sprintf(format, args...)
	if len(r.Problems) <= maxProblems && !slices.Contains(r.Problems, p) {
		r.Problems = append(r.Problems, p)
	}
}

func (r *reader) problemAt(at node) strictyaml.Problem {
	if at.yaml == nil {
		return strictyaml.Problem{File: r.File}
	}
	return strictyaml.Problem{File: r.File, Line: at.yaml.Line, Column: at.yaml.Column, Path: at.path()}
}

// note notes something about a value, once.
func (r *reader) note(at node, format string, args ...any) { r.addNote(at, false, format, args...) }

// leaveOut notes that a rate limit is left out because of a value.
func (r *reader) leaveOut(at node, format string, args ...any) { r.addNote(at, true, format, args...) }

func (r *reader) addNote(at node, leftOut bool, format string, args ...any) {
	p := r.problemAt(at)
	n := Note{p.String(), plaintext.Line(fmt.Sprintf(format, args...)), leftOut, strictyaml.Position{Line: p.Line, Column: p.Column}}
	if !r.noted[n] {
		r.noted[n] = true
		r.notes = append(r.notes, n)
	}
}

// errUnusable is why something that is right cannot be computed here.
type errUnusable struct{ error }

func unusable(format string, args ...any) error { return errUnusable{fmt.Errorf(format, args...)} }

// cannot reports an error about a value: a problem or, if it is unusable, a note that says what is left out.
func (r *reader) cannot(at node, err error, left string) {
	var u errUnusable
	if errors.As(err, &u) {
		r.leaveOut(at, "%v; %s", err, left)
	} else {
		r.problem(at, "%v", err)
	}
}

// checkFields notes the fields of a value that its message does not have.
func (r *reader) checkFields(n node, message protoreflect.ProtoMessage) {
	fields := message.ProtoReflect().Descriptor().Fields()
	for name, value := range n.fields() {
		if fields.ByTextName(name) != nil || fields.ByJSONName(name) != nil || name == "@type" {
			continue
		}
		var known []string
		for i := range fields.Len() {
			known = append(known, fields.Get(i).TextName())
		}
		hint := ""
		if near := spelling.Nearest(name, known); near != "" {
			hint = fmt.Sprintf(", did you mean %s?", near)
		}
		r.note(value, "the field %q is not known here and not used%s", name, hint)
	}
}

// lookAt notes that a header or something else is looked at, and returns its name as requests have it.
func (r *reader) lookAt(name string) string {
	if name = strings.ToLower(name); name == "host" {
		name = ":authority" // where Envoy keeps it
	}
	r.needs[name] = true
	return name
}

// config returns what was read.
func (r *reader) config(all *hosts, c client) *Config {
	slices.SortStableFunc(r.notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
	})
	return &Config{hosts: all, client: c, notes: r.notes, needs: slices.Sorted(maps.Keys(r.needs))}
}
