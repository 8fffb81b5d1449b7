package descriptors

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/gaissmai/bart"
	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// matcherFields are the fields that restrict a descriptor to certain values of its key.
var matcherFields = []string{"value", "networks", "regex"}

// values reads one of matcherFields. It leaves lists to attach, which reads them into the node.
func (d *decoder) values(field string, n *yaml.Node) {
	l := &d.level
	switch {
	case field == "value" && strictyaml.IsNull(n): // treated as not given
		return
	case l.from != "":
		d.Problem(strictyaml.At(n), "%s is given, too: use one of %s", l.from, strings.Join(matcherFields, ", "))
		return
	}
	l.from = field
	switch {
	case field == "networks":
		l.how = ByNetwork
	case field == "regex":
		l.how = ByRegex
		if l.value = d.neededText(n, d.Text, "a regular expression is required; use any but the empty one"); l.value != "" {
			var problem string
			if l.regex, problem = parseRegex(l.value); problem != "" {
				d.Problem(strictyaml.At(n), "%s", problem)
			}
		}
	case n.Kind == yaml.SequenceNode:
		l.how = ByList
	default:
		if l.value, _ = d.Bytes(n); isWildcard(l.value) {
			l.how = ByWildcard
		} else if l.value != "" {
			l.how = ByValue
		}
	}
}

// attach makes the node of l a child of its parent, and makes the values of l lead to the node. If
// the parent already has an equal child, attach reports a problem instead. mapping is the descriptor
// in the file.
func (d *decoder) attach(l *level, mapping *yaml.Node) {
	n := l.node
	parent, p := n.parent, n.parent.patterns[n.entry.Key]
	if n.how == ByNetwork || n.how == ByWildcard || n.how == ByRegex {
		p = d.patternsOf(parent, n.entry.Key)
	}
	if twin := n.twin(p); twin != nil {
		if l.key != "" {
			d.Problem(n.at(), twice, n.word(), twin.location())
		}
		return
	}
	parent.children = append(parent.children, n)
	v := valued{node: n}
	if n.how == ByValue || n.how == ByWildcard {
		v.values = []string{n.entry.Value}
	}
	isHidden := (n.how == ByWildcard || n.how == ByRegex) && d.isHidden(n, n.entry.Value, p, n.at())
	d.warnOfMeaning(n)
	switch n.how {
	case ByList:
		d.Field(mapping, "value", func(list *yaml.Node) { v.values = d.leadFromList(n, list) })
	case ByNetwork:
		d.Field(mapping, "networks", func(list *yaml.Node) { v.values = d.leadFromNetworks(n, p, list) })
	case ByRegex:
		if l.regex == nil { // the invalid expression was already reported
			break
		}
		if p.steps += l.regex.steps; p.steps > maxRegexSteps {
			d.ProblemIn("regex", l.given.At("regex"), "%s", tooManySteps(p.steps))
		} else {
			p.order(n, l.value == ".*")
			l.regex.child = n
			p.regexes = append(p.regexes, l.regex)
		}
	case ByWildcard:
		p.addWildcard(n, l.value)
		fallthrough // the wildcard's text is a value that also leads to n
	default:
		parent.exact[n.entry] = n
	}
	if n.how != ByKey && !isHidden {
		d.valued = append(d.valued, v)
	}
}

// patternsOf returns the patterns of a node and key, which it creates on the first call.
func (d *decoder) patternsOf(n *node, key string) *patterns {
	p := n.patterns[key]
	if p == nil {
		long := d.tooLong()
		if p = (&patterns{tooLong: long[0], shadowed: long[1], compared: MaxWork}); n.patterns == nil {
			n.patterns = make(map[string]*patterns)
		}
		n.patterns[key] = p
	}
	return p
}

// tooLong returns the domain's nodes for values that take too much Work. The rule of the first node
// denies. The rule of the second node denies in shadow mode. Tree.Rules and Tree.All omit both.
func (d *decoder) tooLong() [2]*node {
	const name = "(too long)" // in texts and metrics
	for i := 0; i < 2 && d.long[i] == nil; i++ {
		n := &node{parent: d.root, how: TooLong, entry: limiter.Entry{Key: name}, file: d.root.file, line: d.root.line, column: d.root.column}
		n.rule = &Rule{node: n, Limits: []*limiter.Limit{limiter.NewDenial(sanitize(d.domain), name)}}
		n.rule.Limits[0].Mode = [...]limiter.Mode{limiter.Enforced, limiter.Shadow}[i]
		d.long[i] = n
	}
	return d.long
}

// shadowTooLong directs values that need too much Work to match against the patterns at or below n to
// a node in shadow mode, unless another rule that could apply to these values denies. It reports
// whether a rule at or below n denies.
func (n *node) shadowTooLong() (denies bool) {
	denying := map[string]bool{} // by key: whether a child for more than one value, or a node below it, denies
	for _, child := range n.children {
		if child.shadowTooLong() {
			denies = true
			denying[child.entry.Key] = denying[child.entry.Key] || child.how != ByValue
		}
	}
	for key, p := range n.patterns {
		if !denying[key] && !n.keyless.denies() && !n.above().denies() {
			p.tooLong = p.shadowed
		}
	}
	return denies || n.rule.denies() || n.keyless.denies()
}

// denies reports whether one of r's limits, a limit of Above, or a limit that a request sends may deny
// requests. r may be nil.
func (r *Rule) denies() bool {
	return r != nil && (r.Override != nil || r.Above.denies() ||
		slices.ContainsFunc(r.Limits, func(l *limiter.Limit) bool { return !l.Unlimited && l.Mode != limiter.Shadow }))
}

// twin returns the sibling that already has the key and value of n, or nil. Items of lists are
// compared when they are read.
func (n *node) twin(p *patterns) *node {
	switch n.how {
	case ByList, ByNetwork:
		return nil
	case ByRegex:
		return p.sameRegex(n.entry.Value)
	default:
		return n.parent.exact[n.entry]
	}
}

// leadFromList makes each value of a list lead to n, and returns the values.
func (d *decoder) leadFromList(n *node, list *yaml.Node) (values []string) {
	var at []strictyaml.Position
	d.listed(list, func(item *yaml.Node) {
		value, ok := d.Bytes(item)
		switch e := (limiter.Entry{Key: n.entry.Key, Value: value}); {
		case !ok:
			return
		case value == "":
			d.Problem(strictyaml.At(item), textNeeded, "value")
		default:
			d.repeated(item, n, n.parent.exact[e], value)
			n.parent.exact[e] = n
			if isWildcard(value) {
				p := d.patternsOf(n.parent, e.Key)
				d.isHidden(n, value, p, strictyaml.At(item))
				p.addWildcard(n, value)
			}
			n.add(value)
			values, at = append(values, value), append(at, strictyaml.At(item))
		}
	})
	for i, value := range values {
		d.warnOfNetwork(n.entry.Key, value, at[i])
	}
	return values
}

// leadFromNetworks makes each network of a list lead to n, and returns each network's first address.
func (d *decoder) leadFromNetworks(n *node, p *patterns, list *yaml.Node) (addresses []string) {
	if p.networks == nil {
		p.networks = new(bart.Table[*node])
	}
	d.listed(list, func(item *yaml.Node) {
		text, ok := d.Text(item)
		if !ok {
			return
		}
		network, wrong := parseNetwork(text)
		if wrong != "" {
			d.Problem(strictyaml.At(item), "%s", wrong)
			return
		}
		twin, _ := p.networks.Get(network)
		d.repeated(item, n, twin, network.String())
		p.networks.Insert(network, n)
		n.add(network.String())
		addresses = append(addresses, network.Addr().String())
	})
	return addresses
}

// listed reads the items of a list. An empty list is a problem, because a rule whose values are
// all commented out must not apply to every value.
func (d *decoder) listed(list *yaml.Node, read func(*yaml.Node)) {
	if isEmptyList(list) {
		d.Problem(strictyaml.At(list), "the list is empty; add at least one item")
		return
	}
	d.Items(list, func(item *yaml.Node) {
		runtime.Gosched()
		read(item)
	})
}

// repeated reports an item in the list of n that already leads to twin, which may be n itself.
// It does nothing if twin is nil.
func (d *decoder) repeated(item *yaml.Node, n, twin *node, value string) {
	switch {
	case twin == n:
		d.Problem(strictyaml.At(item), "%s is repeated: remove one", word(value))
	case twin != nil:
		d.Problem(strictyaml.At(item), twice, Spell(limiter.Entry{Key: n.entry.Key, Value: value}), twin.location())
	}
}

const twice = "%s is already at %s: a key and value may be in one rule only"

// add adds a value that leads to n. The first value becomes part of the node's name.
func (n *node) add(value string) {
	if n.entry.Value == "" {
		n.entry.Value = value
	} else {
		n.more++
	}
}

// value returns the values that lead to n, as shown to people: [a+2] is a list of values or
// networks that begins with a and has 2 more; ~a is a regular expression.
func (n *node) value() string {
	switch {
	case n.how == ByRegex:
		return "~" + n.entry.Value
	case n.how != ByList && n.how != ByNetwork:
		return n.entry.Value
	case n.more == 0:
		return "[" + n.entry.Value + "]"
	default:
		return fmt.Sprintf("[%s+%d]", n.entry.Value, n.more)
	}
}

func (n *node) shown() limiter.Entry { return limiter.Entry{Key: n.entry.Key, Value: n.value()} }

// pattern returns the text that replaces the values of n in the key of a shared counter. The text is
// unique among siblings with the same key: only the pattern of a wildcard contains a *, a value or
// network is in only one list, and all other patterns begin with their kind. Adding values to the
// end of a list does not change its pattern.
func (n *node) pattern() string {
	switch n.how {
	case Nowhere:
		return "*"
	case ByList:
		return "values:" + withoutStars.Replace(n.entry.Value)
	case ByNetwork:
		return "networks:" + n.entry.Value
	case ByRegex:
		return "regex:" + withoutStars.Replace(n.entry.Value)
	default:
		return n.entry.Value
	}
}

var withoutStars = strings.NewReplacer("%", "%25", "*", "%2A")
