package descriptors

import (
	"cmp"
	"runtime"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// decoder reads one rule file, or one resource of a control plane, into the tree of its loader.
// A descriptor gets its node before its nested descriptors are read.
type decoder struct {
	strictyaml.Decoder
	*loader
	*tables
	domain string
	root   *node      // root node of the domain
	long   [2]*node   // result of tooLong; the nodes are nil before the first call
	way    []pathNode // nodes from the domain to the current descriptor

	level       level       // the current descriptor
	limitFields limitFields // the current limit
}

type pathNode struct {
	node                 *node
	label                string // name of the level in metrics
	share, valueToMetric bool
}

func (l *loader) newDecoder(name string) *decoder {
	d := &decoder{loader: l}
	d.tables = newTables(d)
	d.File, d.Elsewhere, d.Gone, d.Synonyms = name, elsewhere, gone, synonyms
	return d
}

// document reads a document that was parsed as a whole.
func (d *decoder) document(root *yaml.Node) {
	if d.begin(root) {
		d.Field(root, "descriptors", func(n *yaml.Node) { d.descriptors(d.root, n) })
	}
}

// parts reads a document in parts. It returns false if a part cannot be parsed on its own.
func (d *decoder) parts(parts *strictyaml.Parts) bool {
	if !d.begin(parts.Head) {
		return true
	}
	d.root.makeRoom(parts.Items())
	d.Enter(strictyaml.Step{Field: "descriptors"})
	for first := 0; ; {
		items, ok := parts.Next()
		if !ok {
			return false
		}
		if len(items) == 0 {
			break
		}
		for i, item := range items {
			d.Visit(strictyaml.Step{Index: first + i}, item, func(n *yaml.Node) { d.descriptorAt(d.root, first+i, n) })
		}
		first += len(items)
	}
	d.Leave()
	return true
}

// begin reads all fields except the rules, and finds or makes the root node of the domain. If
// the domain is invalid, the document gets a root of its own, so that its rules are compared
// only with each other. begin returns false if the file contains tests instead of rules.
func (d *decoder) begin(root *yaml.Node) bool {
	if strictyaml.Has(root, "tests") && !strictyaml.Has(root, "domain") {
		d.Problem(strictyaml.At(root), "this file contains tests: run it with weir test")
		return false
	}
	given := d.fields(root, &d.file, nil)
	at := given.At("domain")
	if root.Kind == yaml.MappingNode && !given.Has("domain") {
		d.ProblemIn("domain", at, textNeeded, "domain")
	}
	d.root = d.locate(&node{entry: limiter.Entry{Key: d.domain}}, at, 0)
	switch first := d.tree.domains[d.domain]; {
	case d.domain == "":
	case first == nil:
		d.tree.domains[d.domain] = d.root
		d.tree.labels[d.domain] = sanitize(d.domain)
	case d.opts.MergeDomains:
		d.root = first
		return true
	default:
		d.ProblemIn("domain", at, "%q is already the domain of %s; use another, or set MERGE_DOMAIN_CONFIG=true", d.domain, first.location())
	}
	d.roots = append(d.roots, d.root)
	return true
}

// level has the fields of one descriptor while the descriptor is read.
type level struct {
	Rule              // without the properties that ancestors add, and before modes are applied to limits
	key, value string // value may be the text of a regular expression
	regex      *regex
	how        How
	from       string // name of the given field among matcherFields, or ""

	hasLimit      bool // rate_limit is given and not null; its limits may be invalid
	shadow, quota bool
	quotaService  bool
	share         bool
	given         strictyaml.Given
}

// maxWay is the maximum total length, in bytes, of the keys and values that lead to a list of
// descriptors. Every rule in the list repeats these keys and values in its names.
const maxWay = 64 << 10

// descriptors reads a list of descriptors into the children of parent.
func (d *decoder) descriptors(parent *node, list *yaml.Node) {
	if len(parent.way()) > maxWay {
		d.Problem(strictyaml.At(list), "the keys and values that lead here are too long, at most %d bytes are allowed", maxWay)
		return
	}
	parent.makeRoom(len(list.Content))
	i := 0
	d.Items(list, func(n *yaml.Node) {
		d.descriptorAt(parent, i, n)
		i++
	})
}

// makeRoom allocates space for a number of children, unless n already has children. This saves 3 %
// of the time to load 100,000 rules.
func (n *node) makeRoom(children int) {
	if n.exact == nil {
		n.children, n.exact = make([]*node, 0, children), make(map[limiter.Entry]*node, children)
	}
}

// descriptorAt reads the descriptor at an index of its list, and its nested descriptors.
func (d *decoder) descriptorAt(parent *node, index int, n *yaml.Node) {
	runtime.Gosched() // lets the goroutines of requests run first
	d.level = level{how: ByKey}
	d.level.given = d.fields(n, &d.descriptor, nil)
	l := d.level
	l.node = d.locate(&node{parent: parent, entry: limiter.Entry{Key: l.key, Value: l.value}, how: l.how}, strictyaml.At(l.given.Mapping), index)
	if n.Kind == yaml.MappingNode && !l.given.Has("key") {
		d.keyless(&l)
		return
	}
	children, list := 0, l.given.Value("descriptors")
	if list != nil {
		children = len(list.Content)
	}
	if list != nil && children == 0 && len(l.Limits) == 0 {
		d.WarnIn("descriptors", l.given.At("descriptors"), "the list is empty, so nothing is limited here: add descriptors, or remove the field")
	}
	if l.given.Has("value") && l.from == "" { // value is null, and neither networks nor regex is given
		d.WarnIn("value", l.given.At("value"), `YAML reads null here, so the rule matches any value: quote a value that begins with # or &, or is null or ~; if any is meant, write ""`)
	}
	if l.share && (l.how == ByKey || l.how == ByValue) {
		d.ProblemIn("share_threshold", l.given.At("share_threshold"), "nothing to share: this needs networks, regex, a list of values or a value with a wildcard (*)")
	}
	if l.given.Has("rate_limit") && !l.hasLimit && children == 0 {
		d.WarnIn("rate_limit", l.given.At("rate_limit"), "rate_limit is empty, so the rule limits nothing: write a limit, or remove the field")
	}
	if l.below && !l.hasLimit {
		d.ProblemIn("below", l.given.At("below"), "below needs a rate_limit beside it")
	}
	if l.Override != nil {
		d.checkOverride(&l)
	}
	d.attach(&l, n)
	d.descend(&l)
	switch {
	case l.quotaService:
		l.node.quota = d.rule(&l)
		d.checkQuotaService(&l)
	case len(l.Limits) > 0 || children == 0:
		l.node.rule = d.rule(&l)
	}
	if list != nil {
		d.Field(n, "descriptors", func(n *yaml.Node) { d.descriptors(l.node, n) })
	}
	d.way = d.way[:len(d.way)-1]
}

// keylessFields are the fields that a rule without a key may have.
var keylessFields = []string{"rate_limit", "shadow_mode", "quota_mode", "share_threshold", "metadata"}

// noKey is the name of a rule without a key in texts and metrics.
const noKey = "(no key)"

// keyless makes l the rule of its parent for entries that match no child.
func (d *decoder) keyless(l *level) {
	for _, f := range l.given.Fields {
		if !slices.Contains(keylessFields, f.Name) {
			d.ProblemIn(f.Name, strictyaml.At(f.Value), "%s needs a key; without a key, a rule may have only %s", f.Name, strings.Join(keylessFields, ", "))
			return
		}
	}
	parent := l.node.parent
	switch {
	case !l.hasLimit:
		d.ProblemIn("key", strictyaml.At(l.given.Mapping), "add a key, or a rate_limit for everything that no other rule on this level matches")
		return
	case parent.keyless != nil:
		d.Problem(strictyaml.At(l.given.Mapping), "the level already has a rule without key, at %s", parent.keyless.Location())
		return
	}
	l.node.how, l.node.entry.Key = Nowhere, noKey
	d.descend(l)
	parent.keyless = d.rule(l)
	d.way = d.way[:len(d.way)-1]
}

func (d *decoder) locate(n *node, at strictyaml.Position, index int) *node {
	n.file, n.line, n.column, n.index = d.File, int32(at.Line), int32(at.Column), int32(index)
	return n
}

func (d *decoder) descend(l *level) {
	d.way = append(d.way, pathNode{l.node, l.node.label(), l.share, l.valueToMetric})
}

// rule creates the rule of l, the last level on the path, and adds it to the tree.
func (d *decoder) rule(l *level) *Rule {
	r := new(l.Rule)
	r.Above, r.levels = l.node.parent.above(), int16(len(d.way))
	d.setHold(r)
	var labels []byte
	for i, s := range d.way {
		labels = append(append(labels, s.label...), limiter.LevelEnd)
		if s.share {
			r.Patterns = append(r.Patterns, make([]string, i+1-len(r.Patterns))...)
			r.Patterns[i] = s.node.pattern()
		}
		r.valueToMetric = r.valueToMetric || s.valueToMetric
	}
	r.labels = valuedLabels(d.way, l.detailedMetric)
	set := limiter.NewLabelSet(d.tree.labels[d.domain], string(labels))
	set.Rule = r.Way()
	mode := limiter.Enforced
	if l.quota {
		mode = limiter.Quota
	}
	if l.shadow {
		mode = limiter.Shadow
	}
	for _, limit := range r.Limits {
		set.Limit = limitLabel(limit)
		limit.Series = set.Series()
		limit.ShadowQuota = l.quota && (l.shadow || limit.Mode == limiter.Shadow)
		if limit.Mode != limiter.Enforced {
			continue
		}
		if limit.Mode = mode; limit.DenyFor > 0 && mode != limiter.Enforced {
			field := ModeWord(mode)
			d.WarnIn(field, l.given.At(field), "in %s limits ban nobody, so their deny_for has no effect", field)
		}
	}
	if r.Override != nil {
		set.Limit = "override"
		r.Override.Series = set.Series()
	}
	if r.isLimited() {
		for n := l.node; n != nil && !n.limited; n = n.parent {
			n.limited = true
		}
	}
	d.tree.rules = append(d.tree.rules, r)
	return r
}

// setHold sets Hold and InFlight of r. Hold is the key in r's own limits or, if they have none, in the
// rules above whose limits apply below. setHold reports a problem if the two keys differ, or if some
// of these limits have holds and others have reservations.
func (d *decoder) setHold(r *Rule) {
	settles := false
	if above := r.Above; above != nil {
		r.InFlight, settles = above.InFlight, above.Hold != "" && !above.InFlight
	}
	for _, l := range r.Limits {
		key := cmp.Or(l.HoldKey(), l.Settle)
		if key == "" {
			continue
		}
		r.Hold, r.InFlight, settles = key, r.InFlight || l.HoldKey() != "", settles || l.Settle != ""
		if e := (limiter.Entry{Key: d.domain, Value: key}); d.tree.holds[e] == nil {
			d.tree.holds[e] = r
		}
	}
	switch above := r.Above; {
	case settles && r.InFlight:
		d.ProblemIn("settle", r.node.at(), "settle does not work beside or below algorithm concurrency: use another rule")
	case above == nil || above.Hold == "" || above.Hold == r.Hold:
	case r.Hold == "":
		r.Hold = above.Hold
	default:
		d.ProblemIn("hold", r.node.at(), "%q differs from %q of %s at %s, which applies below: both must use one entry",
			r.Hold, above.Hold, above.Way(), above.Location())
	}
}
