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

// reader reads one file. Its Warnings become the notes of the Config.
type reader struct {
	strictyaml.Decoder
	limits        map[*node]*rateLimit
	sourceCluster string
	needs         map[string]bool
}

func (r *reader) problem(at *node, format string, args ...any) {
	if len(r.Problems) <= maxProblems {
		r.Problems = appendOnce(r.Problems, r.location(at), fmt.Sprintf(format, args...))
	}
}

func (r *reader) note(at *node, format string, args ...any) {
	r.Warnings = appendOnce(r.Warnings, r.location(at), plaintext.Line(fmt.Sprintf(format, args...)))
}

func appendOnce(list strictyaml.Problems, p strictyaml.Problem, message string) strictyaml.Problems {
	if p.Message = message; slices.Contains(list, p) {
		return list
	}
	return append(list, p)
}

// location returns a problem with the location of a value, and no message yet.
func (r *reader) location(at *node) strictyaml.Problem {
	if at == nil {
		return strictyaml.Problem{File: r.File}
	}
	return strictyaml.Problem{File: r.File, Line: at.yaml.Line, Column: at.yaml.Column, Path: at.path()}
}

// errUnusable is the error of a valid configuration that cannot be computed here.
type errUnusable struct{ error }

func unusable(format string, args ...any) error { return errUnusable{fmt.Errorf(format, args...)} }

// cannot reports an error about a value as a problem or, if it is an errUnusable, as a note that ends with skipped.
func (r *reader) cannot(at *node, err error, skipped string) {
	if errors.As(err, new(errUnusable)) {
		r.note(at, "%v; %s", err, skipped)
	} else {
		r.problem(at, "%v", err)
	}
}

// lookAt records that descriptors depend on a header or another property of requests, and returns its name in a Request.
func (r *reader) lookAt(name string) string {
	if name = strings.ToLower(name); name == "host" {
		name = ":authority" // where Envoy keeps it
	}
	r.needs[name] = true
	return name
}

// finish sets the notes and the needs of config.
func (r *reader) finish(config *Config) *Config {
	config.needs = slices.Sorted(maps.Keys(r.needs))
	r.Warnings.Sort()
	for _, p := range r.Warnings {
		text := p.Message
		p.Message = ""
		config.notes = append(config.notes, Note{p.String(), text})
	}
	return config
}
