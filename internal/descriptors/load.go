package descriptors

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// Problem is one error in a rule file.
type Problem = strictyaml.Problem

// Problems has all errors of a set of rule files, sorted by location.
type Problems = strictyaml.Problems

// Options control how rules are loaded.
type Options struct {
	// MergeDomains allows several files to have rules for the same domain. The rules are joined
	// in the order of the files. Each descriptor may be in only one of these files.
	MergeDomains bool
	// CalendarMonths counts limits with unit month by the calendar if they name no algorithm.
	CalendarMonths bool
	// Background limits loading to a single processor, to leave the others to requests.
	Background bool
}

// Sizes in bytes of the parts in which a large file is parsed.
const (
	part      = 8 << 10  // in the background, where parsing a part takes about a millisecond
	largePart = 64 << 10 // on all processors, which rarely wait for each other at this size
)

// Load checks files and builds the Tree of their rules. Its error is of type Problems and has
// all problems of all files. It is an error if files is empty, because a server whose rules are
// missing must not admit everything.
func Load(files []File, opts Options) (*Tree, error) {
	size, ahead := largePart, runtime.GOMAXPROCS(0)
	if opts.Background {
		size, ahead = part, 0
	}
	l := newLoader(opts)
	if !l.files(files, size, ahead) {
		l = newLoader(opts)
		l.files(files, strictyaml.MaxFileSize, 0)
	}
	return l.result()
}

// LoadResources builds the Tree of a control plane's resources, which must be of type
// RateLimitConfig. They are checked like files. An unset field is treated like a field
// missing from a file, except that an unset requests_per_unit is 0. Resources are read in the order
// of their names. If there are no resources, the Tree is empty, because a control plane without
// rules sends none. Unknown fields are reported as Warnings.
func LoadResources(resources []*anypb.Any, opts Options) (*Tree, error) {
	l := newLoader(opts)
	configs := make([]*ratelimit.RateLimitConfig, 0, len(resources))
	for i, resource := range resources {
		runtime.Gosched()
		config, wrong := new(ratelimit.RateLimitConfig), ""
		if resource.GetTypeUrl() != ResourceType {
			wrong = fmt.Sprintf("the type %q is not allowed; use %s", resource.GetTypeUrl(), ResourceType)
		} else if err := proto.Unmarshal(resource.GetValue(), config); err != nil {
			// In some builds, errors of the protobuf library contain non-breaking spaces.
			text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
			wrong = "the resource is not a valid RateLimitConfig: " + strings.TrimPrefix(text, "proto: ")
		}
		if wrong != "" {
			l.problems = append(l.problems, Problem{File: fmt.Sprintf("resources[%d]", i), Message: wrong})
			continue
		}
		configs = append(configs, config)
	}
	slices.SortStableFunc(configs, func(a, b *ratelimit.RateLimitConfig) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, config := range configs {
		d := l.newDecoder(fmt.Sprintf("resource %q", config.GetName()))
		d.document(d.message(config.ProtoReflect()))
		l.add(d)
	}
	return l.result()
}

// ResourceType is the type URL of the xDS resources that contain rules.
const ResourceType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// loader builds a tree from documents, one after the other.
type loader struct {
	opts     Options
	tree     *Tree
	valued   []valued               // nodes for certain values of their keys, in the order of the files
	names    map[limiter.Entry]bool // names of limits, by domain
	replaced []mention              // names in the field replaces of limits
	roots    []*node                // root nodes of all domains, and of documents whose domain is invalid
	problems Problems
}

func newLoader(opts Options) *loader {
	return &loader{
		opts:  opts,
		tree:  &Tree{domains: make(map[string]*node), labels: make(map[string]string), holds: make(map[limiter.Entry]*Rule)},
		names: make(map[limiter.Entry]bool),
	}
}

// files decodes files, in parts if they are larger than size; see strictyaml.Split for size and
// ahead. It returns false if a part cannot be parsed on its own.
func (l *loader) files(files []File, size, ahead int) bool {
	if len(files) == 0 {
		l.problems = append(l.problems, Problem{Message: "there are no rule files, at least one is required"})
	}
	for _, f := range files {
		d := l.newDecoder(f.Name)
		if parts := strictyaml.Split(f.Data, "descriptors", size, ahead); parts != nil {
			if !d.parts(parts) {
				return false
			}
		} else if root := d.Parse(f.Data, "a domain and its descriptors"); root != nil {
			d.document(root)
		}
		l.add(d)
	}
	return true
}

func (l *loader) add(d *decoder) {
	l.problems = append(l.problems, d.Problems...)
	l.tree.warnings = append(l.tree.warnings, d.Warnings...)
}

// result returns the tree or, if there are problems, all problems.
func (l *loader) result() (*Tree, error) {
	if len(l.tree.holds) > 0 {
		for _, root := range l.roots {
			l.checkHolds(root.entry.Key, root)
		}
	}
	if len(l.problems) > 0 {
		l.problems.Sort()
		return nil, l.problems
	}
	for _, root := range l.roots {
		root.shadowTooLong()
	}
	l.warnOfDomains()
	l.orderBuckets()
	l.warnOfHidden()
	l.tree.warnings.Sort()
	l.tree.warnings = slices.CompactFunc(l.tree.warnings, func(a, b Problem) bool { // aliases repeat warnings
		b.Path = a.Path
		return a == b && a.Line > 0
	})
	return l.tree, nil
}

// checkHolds reports nodes below n whose key is used to name holds in the domain. An entry that
// names a hold must not lead to a node, because the entry may be anywhere in a descriptor.
func (l *loader) checkHolds(domain string, n *node) {
	for _, child := range n.children {
		if r := l.tree.holds[limiter.Entry{Key: domain, Value: child.entry.Key}]; r != nil {
			problem := child.location()
			problem.Message = fmt.Sprintf("the key %q names the holds of %s at %s: use another key, or another hold there",
				child.entry.Key, r.Way(), r.Location())
			l.problems = append(l.problems, problem)
		}
		l.checkHolds(domain, child)
	}
}
