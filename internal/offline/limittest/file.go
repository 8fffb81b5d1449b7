package limittest

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/strictyaml"
	"weir/internal/plan"
)

// Options are the settings of the server on which answers depend.
type Options struct {
	plan.Options
	Rules descriptors.Options
}

// File is a checked file of tests. It is immutable.
type File struct {
	Name  string // as problems and failures name it
	opts  Options
	tree  *descriptors.Tree
	tests []test
}

type test struct {
	line     int // in the file
	name     string
	domain   string
	domainAt strictyaml.Position
	start    time.Duration // of the clock, since the epoch
	steps    []step
}

// step is one or several requests, all of them the same.
type step struct {
	at      strictyaml.Position
	first   time.Duration // when the first is sent, since the start of the test
	every   time.Duration // time between two of them
	send    int
	request plan.Request
	checks  []check
}

// last is when the last request of the step is sent.
func (s *step) last() time.Duration { return s.first + time.Duration(s.send-1)*s.every }

// Load reads a file of tests and the rules that it names. The error is of type
// strictyaml.Problems and holds every problem of all these files, unless the
// file of tests cannot be read.
func Load(path string, opts Options) (*File, error) {
	data, err := descriptors.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading tests: %w", err)
	}
	d := decoder{}
	d.File, d.Elsewhere = path, elsewhere
	var config fileConfig
	if root := d.Parse(data, "rules and tests"); root != nil {
		config = d.file(root)
	}
	f := &File{Name: path, opts: opts, tests: config.tests}
	f.tree = d.load(config, opts)
	if f.tree != nil {
		d.checkDomains(f)
	}
	if len(d.Problems) > 0 {
		d.Problems.Sort()
		return nil, d.Problems
	}
	return f, nil
}

// load reads the rules that the file names, relative to where it is itself. It
// returns nil if anything is wrong with them.
func (d *decoder) load(config fileConfig, opts Options) *descriptors.Tree {
	d.Enter(strictyaml.Step{Field: "rules"})
	defer d.Leave()
	var files []descriptors.File
	for i, rules := range config.rules {
		path := rules.path
		if path == "" { // which is reported
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(d.File), path)
		}
		found, _, err := descriptors.ReadFiles(path)
		if err == nil && len(found) == 0 {
			err = descriptors.NoFiles(path)
		}
		if err != nil {
			d.Enter(strictyaml.Step{Index: i})
			d.Problem(rules.at, "%v", err)
			d.Leave()
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil
	}
	tree, err := descriptors.Load(files, opts.Rules)
	if problems, ok := errors.AsType[descriptors.Problems](err); ok {
		d.Problems = append(d.Problems, problems...)
	}
	return tree
}

// maxDomains is how many domains are named where one is unknown.
const maxDomains = 20

// checkDomains reports domains that there are no rules for: whatever is asked
// there is admitted, which no test means.
func (d *decoder) checkDomains(f *File) {
	d.Enter(strictyaml.Step{Field: "tests"})
	defer d.Leave()
	names := f.tree.DomainNames()
	if more := len(names) - maxDomains; more > 0 {
		names = append(names[:maxDomains], fmt.Sprintf("and %d more", more))
	}
	for i, t := range f.tests {
		if t.domain != "" && !f.tree.HasDomain(t.domain) {
			d.Enter(strictyaml.Step{Index: i})
			d.ProblemIn("domain", t.domainAt, "there are no rules for the domain %q, there are: %s", t.domain, strings.Join(names, ", "))
			d.Leave()
		}
	}
}
