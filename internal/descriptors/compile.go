package descriptors

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"weir/internal/limiter"
)

// Options say how files are joined.
type Options struct {
	// MergeDomains lets several files hold rules of one domain. They are joined
	// in the order of the files; the same descriptor may be in one of them only.
	MergeDomains bool
}

// Load checks files and builds the Tree of their rules. The error is of type
// Problems and holds every problem of every file; no file at all is one, too,
// because rules that got lost must not pass for rules that allow everything.
func Load(files []File, opts Options) (*Tree, error) {
	c := compiler{
		opts:    opts,
		tree:    &Tree{domains: make(map[string]*node)},
		defined: make(map[*node]origin),
	}
	var problems Problems
	if len(files) == 0 {
		problems = append(problems, Problem{Message: "there is no rule file"})
	}
	for _, f := range files {
		problems = append(problems, c.file(f)...)
	}
	if len(problems) > 0 {
		problems.sort()
		return nil, problems
	}
	return c.tree, nil
}

// origin is where a node was defined.
type origin struct {
	file string
	position
}

func (o origin) String() string {
	return Problem{File: o.file, Line: o.line, Column: o.column}.String()
}

// compiler adds file after file to a tree.
type compiler struct {
	opts    Options
	tree    *Tree
	defined map[*node]origin
}

func (c *compiler) file(f File) Problems {
	d := decoder{reporter: reporter{file: f.Name}}
	root := d.parse(f.Data)
	if root == nil {
		return d.problems
	}
	config := d.file(root)
	n := c.domain(&d.reporter, config)
	b := branch{reporter: &d.reporter, compiler: c, domain: config.domain}
	b.descriptors(n, config.descriptors)
	return d.problems
}

// domain returns the root node of a file's domain.
func (c *compiler) domain(r *reporter, config fileConfig) *node {
	n := c.tree.domains[config.domain]
	switch {
	case n == nil:
		n = &node{}
		c.defined[n] = origin{r.file, config.domainAt}
		c.tree.domains[config.domain] = n
	case !c.opts.MergeDomains:
		r.problemIn("domain", config.domainAt, "domain %q is already in %s, allowed is one file per domain unless MERGE_DOMAIN_CONFIG is true", config.domain, c.defined[n])
	}
	return n
}

// branch is the way from a domain to the nodes that are added.
type branch struct {
	*reporter
	compiler *compiler
	domain   string
	levels   []*descriptorConfig // from the first level on
}

// descriptors adds children to a node.
func (b *branch) descriptors(parent *node, list []descriptorConfig) {
	b.enter(step{field: "descriptors"})
	defer b.leave()
	for i := range list {
		b.enter(step{index: i})
		b.levels = append(b.levels, &list[i])
		b.descriptor(parent, &list[i])
		b.levels = b.levels[:len(b.levels)-1]
		b.leave()
	}
}

func (b *branch) descriptor(parent *node, config *descriptorConfig) {
	n := &node{}
	entry := limiter.Entry{Key: config.key, Value: config.value}
	if twin := parent.children[entry]; twin == nil {
		parent.add(entry, n)
		b.compiler.defined[n] = origin{b.file, config.at}
	} else if config.key != "" {
		b.problem(config.at, "%s is already at %s, allowed is one descriptor per key and value", config, b.compiler.defined[twin])
	}
	if config.limit != nil || len(config.descriptors) == 0 {
		n.rule = b.rule(config)
		b.compiler.tree.rules = append(b.compiler.tree.rules, n.rule)
	}
	b.descriptors(n, config.descriptors)
}

// String names the descriptor in a problem.
func (c *descriptorConfig) String() string {
	if c.value == "" {
		return fmt.Sprintf("key %q without value", c.key)
	}
	return fmt.Sprintf("key %q with value %q", c.key, c.value)
}

func (n *node) add(entry limiter.Entry, child *node) {
	if n.children == nil {
		n.children = make(map[limiter.Entry]*node)
	}
	n.children[entry] = child
	if !isWildcard(entry.Value) {
		return
	}
	if n.wildcards == nil {
		n.wildcards = make(map[string]*wildcards)
	}
	if n.wildcards[entry.Key] == nil {
		n.wildcards[entry.Key] = newWildcards()
	}
	n.wildcards[entry.Key].add(entry.Value, child)
}

// rule builds the rule of the branch's last level.
func (b *branch) rule(config *descriptorConfig) *Rule {
	r := &Rule{
		Limit:          config.limit,
		Metadata:       config.metadata,
		DetailedMetric: config.detailedMetric,
		path:           word(b.domain),
	}
	for i, level := range b.levels {
		r.path += "|" + spell(limiter.Entry{Key: level.key, Value: level.value})
		if level.shareThreshold {
			r.Patterns = append(r.Patterns, make([]string, i+1-len(r.Patterns))...)
			r.Patterns[i] = level.value
		}
		if level.valueToMetric {
			r.ValueToMetric = append(r.ValueToMetric, make([]bool, i+1-len(r.ValueToMetric))...)
			r.ValueToMetric[i] = true
		}
	}
	if r.Limit == nil {
		return r
	}
	switch {
	case config.shadow:
		r.Limit.Mode = limiter.Shadow
	case config.quota:
		r.Limit.Mode = limiter.Quota
	}
	r.Limit.Series = limiter.Series{Domain: label(b.domain), Key1: b.label(0), Key2: b.label(1)}
	return r
}

// label is the metrics' label for a level, "" if there is no such level.
func (b *branch) label(level int) string {
	if level >= len(b.levels) {
		return ""
	}
	c := b.levels[level]
	if c.value == "" {
		return label(c.key)
	}
	return label(c.key + "_" + c.value)
}

var (
	notInLabels = strings.NewReplacer(":", "_", "|", "_")
	ipv4        = regexp.MustCompile(`\d{1,3}(\.\d{1,3}){3}`)
)

// label spells s as the metrics of the reference do, so that dashboards keep
// working: without ':' and '|', and without the dots of IPv4 addresses. Labels
// are UTF-8.
func label(s string) string {
	s = notInLabels.Replace(strings.ToValidUTF8(s, "_"))
	return ipv4.ReplaceAllStringFunc(s, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}

// spell writes an entry for people: key=value, or key if there is no value.
func spell(e limiter.Entry) string {
	if e.Value == "" {
		return word(e.Key)
	}
	return word(e.Key) + "=" + word(e.Value)
}

// word quotes s if that is needed to tell where it begins and ends.
func word(s string) string {
	for _, r := range s {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar || strings.ContainsRune("|=\" ", r) {
			return strconv.Quote(s)
		}
	}
	return s
}
