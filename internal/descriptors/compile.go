package descriptors

import (
	"context"
	"slices"

	"weir/internal/limiter"
	"weir/internal/strictyaml"
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
	defined  map[*node]Problem // where: without message
	valued   []*node           // those with a value, in the order of the files
	names    map[string]*names // by domain
	problems Problems
}

func newCompiler(unit string, opts Options) *compiler {
	if opts.Pause == nil {
		opts.Pause = func() {}
	}
	return &compiler{
		opts:    opts,
		unit:    unit,
		tree:    &Tree{domains: make(map[string]*node), labels: make(map[string]string)},
		defined: make(map[*node]Problem),
		names:   make(map[string]*names),
	}
}

// result is the tree or, if there is any problem, all of them.
func (c *compiler) result() (*Tree, error) {
	if err := c.opts.ended(); err != nil {
		return nil, err
	}
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

// branch is the way from a domain to the node that is being added.
type branch struct {
	*strictyaml.Reporter
	compiler *compiler
	domain   string              // as a label
	levels   []*descriptorConfig // from the first one on
}

// descriptors adds children to a node.
func (b *branch) descriptors(parent *node, list []descriptorConfig) {
	b.Enter(strictyaml.Step{Field: "descriptors"})
	defer b.Leave()
	if parent.children == nil && len(list) > 0 {
		parent.children = make(map[limiter.Entry]*node, len(list))
	}
	for i := range list {
		if b.compiler.opts.ended() != nil {
			return
		}
		b.Enter(strictyaml.Step{Index: i})
		b.levels = append(b.levels, &list[i])
		b.descriptor(parent, &list[i])
		b.levels = b.levels[:len(b.levels)-1]
		b.Leave()
	}
}

func (b *branch) descriptor(parent *node, config *descriptorConfig) {
	b.compiler.opts.Pause()
	n := &node{parent: parent, entry: limiter.Entry{Key: config.key, Value: config.value}}
	if twin := parent.children[n.entry]; twin == nil {
		b.warnIfHidden(parent, config)
		b.warnOfMeaning(config)
		parent.add(n)
		if config.value != "" {
			b.compiler.valued = append(b.compiler.valued, n)
		}
		b.compiler.defined[n] = b.Origin(config.at)
	} else if config.key != "" {
		b.Problem(config.at, "%s is already at %s, allowed is one descriptor per key and value", config, b.compiler.defined[twin])
	}
	if len(config.limits) > 0 || len(config.descriptors) == 0 {
		n.rule = b.rule(n, config)
		b.compiler.tree.rules = append(b.compiler.tree.rules, n.rule)
	}
	b.descriptors(n, config.descriptors)
}

// add makes child, which has its entry, a child of n.
func (n *node) add(child *node) {
	n.children[child.entry] = child
	key, value := child.entry.Key, child.entry.Value
	if !isWildcard(value) {
		return
	}
	if n.wildcards == nil {
		n.wildcards = make(map[string]*wildcards)
	}
	if n.wildcards[key] == nil {
		n.wildcards[key] = newWildcards()
	}
	n.wildcards[key].add(value, child)
}

// rule builds the rule of n, the branch's last level.
func (b *branch) rule(n *node, config *descriptorConfig) *Rule {
	r := &Rule{
		Limits:         config.limits,
		Metadata:       config.metadata,
		detailedMetric: config.detailedMetric,
		node:           n,
		file:           b.File,
		at:             config.at,
	}
	var levels []byte
	for i, l := range b.levels {
		levels = append(append(levels, configured(l)...), limiter.LevelEnd)
		if l.shareThreshold {
			r.Patterns = append(r.Patterns, make([]string, i+1-len(r.Patterns))...)
			r.Patterns[i] = l.value
		}
		r.valueToMetric = r.valueToMetric || l.valueToMetric
	}
	r.labels = b.valuedLabels()
	labels := limiter.NewLabelSet(b.domain, string(levels))
	labels.Rule = n.way()
	for _, l := range r.Limits {
		labels.Limit = limitLabel(l)
		l.Series = labels.Series()
		switch {
		case config.shadow:
			l.Mode = limiter.Shadow
		case config.quota && l.Mode == limiter.Enforced:
			l.Mode = limiter.Quota
		}
	}
	return r
}

// valuedLabels are those of the rule of the branch's last level if values of
// requests belong in them, else nil.
func (b *branch) valuedLabels() []levelLabel {
	detailed := b.levels[len(b.levels)-1].detailedMetric
	var labels []levelLabel
	for _, l := range b.levels {
		labels = append(labels, label(l, detailed))
	}
	if !slices.ContainsFunc(labels, func(l levelLabel) bool { return l.valued }) {
		return nil
	}
	return labels
}
