package descriptors

import (
	"context"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// Problem is one thing that is wrong in a rule file.
type Problem = strictyaml.Problem

// Problems is every problem of a set of rule files, sorted by place.
type Problems = strictyaml.Problems

// Options say how rules are loaded.
type Options struct {
	// MergeDomains lets several files hold rules of one domain. They are joined
	// in the order of the files; the same descriptor may be in one of them only.
	MergeDomains bool
	// CalendarMonths counts months by the calendar of UTC where a fixed window has no anchor.
	CalendarMonths bool
	// Pause is called again and again during a load, so that a large one can let
	// others work. If it is nil, there are no others, and the load keeps all
	// processors busy.
	Pause func()
	// Context ends a load early, whose error is then that of the context. Nil
	// never does.
	Context context.Context
}

// ended returns why a load shall end early, or nil.
func (o Options) ended() error {
	if o.Context == nil {
		return nil
	}
	return o.Context.Err()
}

// Load checks files and builds the Tree of their rules. The error is of type
// Problems and holds every problem of every file; no file at all is one, too,
// because rules that got lost must not pass for rules that allow everything.
func Load(files []File, opts Options) (*Tree, error) {
	c := newCompiler("file", opts)
	if len(files) == 0 {
		c.problems = append(c.problems, Problem{Message: "there is no rule file, at least one is needed"})
	}
	for _, f := range files {
		d, config := decodeFile(f, opts)
		if config != nil {
			c.add(d, config)
		}
		c.problems = append(c.problems, d.Problems...)
	}
	return c.result()
}

// compiler adds document after document to a tree.
type compiler struct {
	opts     Options
	unit     string // what holds a document: a file, or a resource of a control plane
	tree     *Tree
	defined  map[*node]Problem       // where: without message
	valued   []valued                // nodes that are not for any value, in the order of the files
	names    map[string]*names       // by domain
	holding  map[limiter.Entry]*Rule // by domain and key: the first rule whose holds entries with that key name
	problems Problems
}

func newCompiler(unit string, opts Options) *compiler {
	if opts.Pause == nil {
		opts.Pause = func() {}
	}
	return &compiler{
		opts:    opts,
		unit:    unit,
		tree:    &Tree{domains: make(map[string]*node), labels: make(map[string]string), holds: make(map[string][]string)},
		defined: make(map[*node]Problem),
		names:   make(map[string]*names),
		holding: make(map[limiter.Entry]*Rule),
	}
}

// result is the tree or, if there is any problem, all of them.
func (c *compiler) result() (*Tree, error) {
	if err := c.opts.ended(); err != nil {
		return nil, err
	}
	c.checkHolds()
	if len(c.problems) > 0 {
		c.problems.Sort()
		return nil, c.problems
	}
	c.finishWarnings()
	return c.tree, nil
}

// add adds the rules of a document. What is wrong goes to its decoder.
func (c *compiler) add(d *decoder, config *fileConfig) {
	root := c.domain(&d.Reporter, config)
	b := branch{Reporter: &d.Reporter, compiler: c, domain: c.tree.labels[config.domain]}
	b.descriptors(root, config.descriptors)
	b.otherwise(root, config.otherwise)
	c.addWarnings(config.domain, d)
}

// domain returns the root node of a document's domain. Where the domain is wrong it
// is a new one, so that only what is wrong within the document is found in it.
func (c *compiler) domain(r *strictyaml.Reporter, config *fileConfig) *node {
	root := &node{entry: limiter.Entry{Key: config.domain}}
	first := c.tree.domains[config.domain]
	switch {
	case config.domain == "":
	case first == nil:
		c.tree.domains[config.domain] = root
		c.tree.labels[config.domain] = sanitize(config.domain)
		c.defined[root] = r.Origin(config.domainAt)
	case c.opts.MergeDomains:
		return first
	default:
		r.ProblemIn("domain", config.domainAt, "%q is already the domain of %s, allowed is one %s per domain unless MERGE_DOMAIN_CONFIG is true",
			config.domain, c.defined[first], c.unit)
	}
	return root
}
