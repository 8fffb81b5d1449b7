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

// Problem is one thing that is wrong in a rule file.
type Problem = strictyaml.Problem

// Problems is every problem of a set of rule files, sorted by place.
type Problems = strictyaml.Problems

// Options say how rules are loaded.
type Options struct {
	// MergeDomains lets several files have rules of one domain. They are joined
	// in the order of the files; the same descriptor may be in one of them only.
	MergeDomains bool
	// CalendarMonths counts limits of unit month without an algorithm by the calendar.
	CalendarMonths bool
	// Background leaves all processors but one to others. Otherwise a load keeps all busy.
	Background bool
}

// How much of a large file is parsed at once, in bytes.
const (
	part      = 8 << 10  // in the background: a millisecond
	largePart = 64 << 10 // by all processors, which seldom wait for each other then
)

// Load checks files and builds the Tree of their rules. The error is of type
// Problems and has every problem of every file; no file at all is one, too,
// because rules that got lost must not pass for rules that allow everything.
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

// LoadResources builds the Tree of the resources of a control plane, each of them a
// RateLimitConfig, with the checks of files. A field that is not set means what it means in
// a file that omits it, except that requests_per_unit is then 0. Resources are joined in the
// order of their names. No resource at all makes an empty Tree, because so a control plane
// says that it has no rules. Of fields that are not known here, Warnings tell.
func LoadResources(resources []*anypb.Any, opts Options) (*Tree, error) {
	l := newLoader(opts)
	configs := make([]*ratelimit.RateLimitConfig, 0, len(resources))
	for i, resource := range resources {
		runtime.Gosched()
		config, wrong := new(ratelimit.RateLimitConfig), ""
		if resource.GetTypeUrl() != ResourceType {
			wrong = fmt.Sprintf("the type %q is not allowed; use %s", resource.GetTypeUrl(), ResourceType)
		} else if err := proto.Unmarshal(resource.GetValue(), config); err != nil {
			// Some of its blanks are of another kind in every other build of the program.
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
		d := l.decoder(fmt.Sprintf("resource %q", config.GetName()))
		writer := messageWriter{&d.Reporter}
		d.whole(writer.message(config.ProtoReflect()))
		l.add(d)
	}
	return l.result()
}

// ResourceType is the type of the resources in which a control plane sends
// rules.
const ResourceType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// loader makes a tree of document after document.
type loader struct {
	opts     Options
	tree     *Tree
	valued   []valued               // nodes that are not for any value, in the order of the files
	names    map[limiter.Entry]bool // of limits, with their domains
	replaced []mention              // names in the replaces of limits
	roots    []*node                // of domains, and of the documents whose domain is wrong
	problems Problems
}

func newLoader(opts Options) *loader {
	return &loader{
		opts:  opts,
		tree:  &Tree{domains: make(map[string]*node), labels: make(map[string]string), holds: make(map[limiter.Entry]*Rule)},
		names: make(map[limiter.Entry]bool),
	}
}

// files decodes files, one that is larger than size part by part: size and ahead are
// those of strictyaml.Split. It reports whether all parts could be parsed alone.
func (l *loader) files(files []File, size, ahead int) bool {
	if len(files) == 0 {
		l.problems = append(l.problems, Problem{Message: "there are no rule files, at least one is required"})
	}
	for _, f := range files {
		d := l.decoder(f.Name)
		if parts := strictyaml.Split(f.Data, "descriptors", size, ahead); parts != nil {
			if !d.parts(parts) {
				return false
			}
		} else if root := d.Parse(f.Data, "a domain and its descriptors"); root != nil {
			d.whole(root)
		}
		l.add(d)
	}
	return true
}

// add takes over what was found in a document.
func (l *loader) add(d *decoder) {
	l.problems = append(l.problems, d.Problems...)
	l.tree.warnings = append(l.tree.warnings, d.Warnings...)
}

// result is the tree or, if there is any problem, all of them.
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
	l.warnOfDomains()
	l.warnOfHidden()
	l.tree.warnings.Sort()
	l.tree.warnings = slices.CompactFunc(l.tree.warnings, func(a, b Problem) bool { // which an alias repeats
		b.Path = a.Path
		return a == b && a.Line > 0
	})
	return l.tree, nil
}

// checkHolds reports the nodes below n whose key names holds in their domain. An entry with
// such a key has no node, so that it can be anywhere in a descriptor.
func (l *loader) checkHolds(domain string, n *node) {
	for _, child := range n.children {
		if r := l.tree.holds[limiter.Entry{Key: domain, Value: child.entry.Key}]; r != nil {
			problem := child.place()
			problem.Message = fmt.Sprintf("the key %q names the holds of %s at %s: use another key, or another hold there",
				child.entry.Key, r.Way(), r.Place())
			l.problems = append(l.problems, problem)
		}
		l.checkHolds(domain, child)
	}
}
