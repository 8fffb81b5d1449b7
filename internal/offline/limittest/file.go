package limittest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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

// File is a checked file of tests.
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
	// Of the field expect: the sum of admitted and denied, and how many statuses are where.
	outcomes, statuses int
	statusesAt         strictyaml.Position
}

// last is when the last request of the step is sent.
func (s *step) last() time.Duration { return s.first + time.Duration(s.send-1)*s.every }

// Suffix is how the names of files of tests end.
const Suffix = "_test.yaml"

// Find returns the files of tests that paths name, in their order: of a directory
// those whose names have the Suffix, below it and in the order of names, without
// what begins with a dot. Any other path is returned as it is. The error tells of
// a directory that cannot be read or has none.
func Find(paths ...string) (files []string, err error) {
	for _, root := range paths {
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			files = append(files, root) // who reads it says what is wrong
			continue
		}
		before := len(files)
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch hidden := path != root && strings.HasPrefix(entry.Name(), "."); {
			case err != nil:
				return err
			case hidden && entry.IsDir():
				return filepath.SkipDir
			case !hidden && !entry.IsDir() && strings.HasSuffix(path, Suffix):
				files = append(files, path)
			}
			return nil
		})
		if err == nil && len(files) == before {
			err = fmt.Errorf("no file below %s has a name that ends in %s", root, Suffix)
		}
		if err != nil {
			return nil, fmt.Errorf("finding tests: %w", err)
		}
	}
	return files, nil
}

// Load reads a file of tests and the rules that it names. The error is of type
// strictyaml.Problems and holds every problem of all these files, unless the
// file of tests cannot be read.
func Load(path string, opts Options) (*File, error) {
	data, err := descriptors.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading tests: %w", err)
	}
	d, f := new(decoder), &File{Name: path, opts: opts}
	d.File = path
	if root := d.Parse(data, "rules and tests"); root != nil {
		var files []descriptors.File
		if files, f.tests = d.file(root); len(files) > 0 {
			f.tree, err = descriptors.Load(files, opts.Rules)
			if problems, ok := errors.AsType[descriptors.Problems](err); ok {
				d.Problems = append(d.Problems, problems...)
			}
		}
	}
	for i, t := range f.tests { // what no rule applies to is admitted, which no test means
		if f.tree != nil && t.domain != "" && !f.tree.HasDomain(t.domain) {
			p := d.Here(t.domainAt)
			p.Path = fmt.Sprintf("tests[%d].domain", i)
			p.Message = fmt.Sprintf("there are no rules for the domain %q, there are: %s", t.domain, strings.Join(f.tree.DomainNames(), ", "))
			d.Problems = append(d.Problems, p)
		}
	}
	if len(d.Problems) > 0 {
		d.Problems.Sort()
		return nil, d.Problems
	}
	return f, nil
}
