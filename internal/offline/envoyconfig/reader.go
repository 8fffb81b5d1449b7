package envoyconfig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"weir/internal/descriptors/plaintext"
	"weir/internal/descriptors/strictyaml"
)

// reader reads one file.
type reader struct {
	strictyaml.Decoder
	values        int                     // of the file
	at            map[proto.Message]*node // where messages are
	limits        map[*routepb.RateLimit]*rateLimit
	notes         []Note
	sourceCluster string
	needs         map[string]bool
}

// problem reports something that is wrong at a value.
func (r *reader) problem(at *node, format string, args ...any) {
	p := r.place(at)
	p.Message = fmt.Sprintf(format, args...)
	if len(r.Problems) <= maxProblems && !slices.Contains(r.Problems, p) {
		r.Problems = append(r.Problems, p)
	}
}

// place is where a value is.
func (r *reader) place(at *node) strictyaml.Problem {
	if at == nil {
		return strictyaml.Problem{File: r.File}
	}
	return strictyaml.Problem{File: r.File, Line: at.yaml.Line, Column: at.yaml.Column, Path: at.path()}
}

// note notes something about a value, once.
func (r *reader) note(at *node, format string, args ...any) {
	p := r.place(at)
	n := Note{p.String(), plaintext.Line(fmt.Sprintf(format, args...)), strictyaml.Position{Line: p.Line, Column: p.Column}}
	if !slices.Contains(r.notes, n) {
		r.notes = append(r.notes, n)
	}
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
	slices.SortStableFunc(r.notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
	})
	return &Config{hosts: all, client: c, notes: r.notes, needs: slices.Sorted(maps.Keys(r.needs))}
}
