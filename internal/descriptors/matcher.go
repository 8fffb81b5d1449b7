package descriptors

import (
	"fmt"
	"net/netip"
	"strings"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// matcherFields are those that say which values of an entry a descriptor is for.
var matcherFields = []string{"value", "values", "networks", "regex"}

// matcher is a field beside value that says so.
type matcher struct {
	how      How // ByList, ByNetwork or ByRegex
	values   []listed[string]
	networks []listed[netip.Prefix]

	text  string // of the regular expression
	at    strictyaml.Position
	regex *regex // nil if it is none
}

// listed is an item of a list.
type listed[T any] struct {
	item  T
	index int
	at    strictyaml.Position
}

// values reads one of matcherFields.
func (d *decoder) values(field string, n *yaml.Node) {
	l := &d.level
	switch {
	case field == "value" && strictyaml.IsNull(n): // as good as left out
		return
	case l.from != "":
		d.Problem(strictyaml.At(n), "there is %s, too, allowed is one of %s", l.from, strings.Join(matcherFields, ", "))
		return
	case field == "values":
		l.matcher = &matcher{how: ByList, values: list(d, n, d.listedValue)}
	case field == "networks":
		l.matcher = &matcher{how: ByNetwork, networks: list(d, n, d.network)}
	case field == "regex":
		l.matcher = d.regex(n)
	case n.Kind == yaml.SequenceNode:
		d.Problem(strictyaml.At(n), "a list is not allowed (did you mean values?), text is needed")
	default:
		l.value, _ = d.Bytes(n)
	}
	l.from = field
}

// list decodes a list, without what is wrong in it. An empty one is a problem: a
// rule whose values were all commented out must not be one for every value.
func list[T any](d *decoder, n *yaml.Node, read func(*yaml.Node) (T, bool)) []listed[T] {
	if isEmptyList(n) {
		d.Problem(strictyaml.At(n), "the list is empty, at least one item is needed")
		return nil
	}
	items, i := make([]listed[T], 0, len(n.Content)), 0
	d.Items(n, func(n *yaml.Node) {
		d.opts.Pause()
		if item, ok := read(n); ok {
			items = append(items, listed[T]{item, i, strictyaml.At(n)})
		}
		i++
	})
	return items
}

func (d *decoder) listedValue(n *yaml.Node) (value string, ok bool) {
	value, ok = d.Bytes(n)
	switch {
	case !ok:
	case value == "":
		d.Problem(strictyaml.At(n), "a value is needed, allowed is any text but the empty one")
	case isWildcard(value):
		d.Problem(strictyaml.At(n), "%q has a wildcard (*), allowed are exact values; a wildcard needs a descriptor of its own, with value", value)
	}
	return value, ok && value != "" && !isWildcard(value)
}

func (d *decoder) network(n *yaml.Node) (network netip.Prefix, ok bool) {
	text, ok := d.Text(n)
	if !ok {
		return network, false
	}
	network, wrong := parseNetwork(text)
	if wrong != "" {
		d.Problem(strictyaml.At(n), "%s", wrong)
	}
	return network, wrong == ""
}

func (d *decoder) regex(n *yaml.Node) *matcher {
	m := &matcher{how: ByRegex, at: strictyaml.At(n)}
	text, ok := d.Text(n)
	switch {
	case !ok:
		return m
	case text == "":
		d.Problem(strictyaml.At(n), "a regular expression is needed, allowed is any but the empty one")
		return m
	}
	var wrong string
	if m.regex, wrong = parseRegex(text); wrong != "" {
		d.Problem(strictyaml.At(n), "%s", wrong)
	}
	m.text = text
	return m
}

// newNode returns the node of a descriptor.
func (l *level) newNode(parent *node) *node {
	n := &node{parent: parent, entry: limiter.Entry{Key: l.key, Value: l.value}}
	switch m := l.matcher; {
	case m == nil && l.value == "":
		n.how = ByKey
	case m == nil && isWildcard(l.value):
		n.how = ByWildcard
	case m == nil:
		n.how = ByValue
	case m.how == ByRegex:
		n.how, n.entry.Value = ByRegex, m.text
	default:
		n.how = m.how
		if len(m.values) > 0 {
			n.entry.Value, n.more = m.values[0].item, len(m.values)-1
		} else if len(m.networks) > 0 {
			n.entry.Value, n.more = m.networks[0].item.String(), len(m.networks)-1
		}
	}
	return n
}

// spelled names n in a problem.
func (n *node) spelled() string {
	switch n.how {
	case ByKey:
		return fmt.Sprintf("key %q without value", n.entry.Key)
	case ByRegex:
		return fmt.Sprintf("key %q with regex %q", n.entry.Key, n.entry.Value)
	default:
		return fmt.Sprintf("key %q with value %q", n.entry.Key, n.entry.Value)
	}
}

// value is what people read for the values that lead to n: [a+2] is a list or
// networks, the first of which is a, and ~a a regular expression.
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

// named is the entry of n as people read it.
func (n *node) named() limiter.Entry { return limiter.Entry{Key: n.entry.Key, Value: n.value()} }

// pattern stands for all values that lead to n in the key of their counter. No two
// children of a node and key have the same: only that of a wildcard has a *, a
// value or a network is in one list only, and the rest begins with its kind. It does
// not change if further values are listed.
func (n *node) pattern() string {
	switch n.how {
	case ByList:
		return "values:" + n.entry.Value
	case ByNetwork:
		return "networks:" + n.entry.Value
	case ByRegex:
		return "regex:" + withoutStars.Replace(n.entry.Value)
	default:
		return n.entry.Value
	}
}

var withoutStars = strings.NewReplacer("%", "%25", "*", "%2A")
