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

// Options are the server's settings that affect answers.
type Options struct {
	plan.Options
	Rules descriptors.Options
}

// File is a checked test file.
type File struct {
	Name  string // path, as problems and failures show it
	opts  Options
	tree  *descriptors.Tree
	tests []test
}

type test struct {
	line     int // line in the file
	name     string
	domain   string
	domainAt strictyaml.Position
	start    time.Duration // time at which the test's clock starts, since the epoch
	steps    []step
}

// step is one request, which may be sent several times.
type step struct {
	at      strictyaml.Position
	first   time.Duration // time of the first request since the start of the test
	every   time.Duration // time between two requests
	send    int
	request plan.Request
	checks  []check
	// These come from the field expect: the sum of its fields admitted and denied, and
	// the length and the position of its list statuses.
	outcomes, statuses int
	statusesAt         strictyaml.Position
}

func (s *step) last() time.Duration { return s.first + time.Duration(s.send-1)*s.every }

// Suffix is the suffix of the names of test files.
const Suffix = "_test.yaml"

// Find returns the test files at paths, in the order of paths. For a directory it
// returns all files in and below it whose names end in Suffix, sorted by name. It skips
// files and directories whose names begin with a dot. Any other path is returned unchanged. Find fails if a
// directory cannot be read or has no test files.
func Find(paths ...string) (files []string, err error) {
	for _, root := range paths {
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			files = append(files, root) // if root does not exist, Load will fail
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

// Load reads a test file and the rules that it names. If any of these files has
// problems, the error is a strictyaml.Problems that lists them all. If the test file
// cannot be read, the error says why.
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
	for i, t := range f.tests { // without rules, all requests would be admitted, which no test intends
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
