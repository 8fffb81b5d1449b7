package envoyconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/descriptors/plaintext"
	"weir/internal/descriptors/strictyaml"
)

// reader reads one file. Its Warnings become the notes.
type reader struct {
	strictyaml.Decoder
	values        int // of the file
	limits        map[*node]*rateLimit
	sourceCluster string
	needs         map[string]bool
}

// problem reports something that is wrong at a value.
func (r *reader) problem(at *node, format string, args ...any) {
	if len(r.Problems) <= maxProblems {
		r.Problems = appendOnce(r.Problems, r.place(at), fmt.Sprintf(format, args...))
	}
}

// note notes something about a value.
func (r *reader) note(at *node, format string, args ...any) {
	r.Warnings = appendOnce(r.Warnings, r.place(at), plaintext.Line(fmt.Sprintf(format, args...)))
}

func appendOnce(list strictyaml.Problems, p strictyaml.Problem, message string) strictyaml.Problems {
	if p.Message = message; slices.Contains(list, p) {
		return list
	}
	return append(list, p)
}

// place is where a value is.
func (r *reader) place(at *node) strictyaml.Problem {
	if at == nil {
		return strictyaml.Problem{File: r.File}
	}
	return strictyaml.Problem{File: r.File, Line: at.yaml.Line, Column: at.yaml.Column, Path: at.path()}
}

// errUnusable is what is valid but cannot be computed here.
type errUnusable struct{ error }

func unusable(format string, args ...any) error { return errUnusable{fmt.Errorf(format, args...)} }

// cannot reports an error about a value: a problem or, if it is unusable, a note that says what is skipped.
func (r *reader) cannot(at *node, err error, skipped string) {
	if errors.As(err, new(errUnusable)) {
		r.note(at, "%v; %s", err, skipped)
	} else {
		r.problem(at, "%v", err)
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
	config := &Config{hosts: all, client: c, needs: slices.Sorted(maps.Keys(r.needs))}
	r.Warnings.Sort()
	for _, p := range r.Warnings {
		text := p.Message
		p.Message = ""
		config.notes = append(config.notes, Note{p.String(), text})
	}
	return config
}
