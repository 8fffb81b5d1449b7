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

// values decodes a field that says which values c is for. from is the one that did so
// already, "" if none did.
func (d *decoder) values(c *descriptorConfig, from *string, field string, n *yaml.Node) {
	switch {
	case field == "value" && strictyaml.IsNull(n): // as good as left out
		return
	case *from != "":
		d.Problem(strictyaml.At(n), "there is %s, too, allowed is one of %s", *from, strings.Join(matcherFields, ", "))
		return
	case field != "value":
		c.matcher = d.matcher(field, n)
	case n.Kind == yaml.SequenceNode:
		d.Problem(strictyaml.At(n), "a list is not allowed (did you mean values?), text is needed")
	default:
		c.value, _ = d.Bytes(n)
	}
	*from = field
}

// matcher decodes values, networks or regex.
func (d *decoder) matcher(field string, n *yaml.Node) *matcher {
	switch field {
	case "values":
		return &matcher{how: ByList, values: list(d, n, d.listedValue)}
	case "networks":
		return &matcher{how: ByNetwork, networks: list(d, n, d.network)}
	default:
		return d.regex(n)
	}
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
		d.pause()
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

// how returns by what entries lead to the node of a descriptor.
func (c *descriptorConfig) how() How {
	switch {
	case c.matcher != nil:
		return c.matcher.how
	case c.value == "":
		return ByKey
	case isWildcard(c.value):
		return ByWildcard
	default:
		return ByValue
	}
}

// node returns the node of a descriptor.
func (c *descriptorConfig) node(parent *node) *node {
	n := &node{parent: parent, entry: limiter.Entry{Key: c.key, Value: c.value}, how: c.how()}
	switch m := c.matcher; {
	case n.how == ByList && len(m.values) > 0:
		n.entry.Value, n.more = m.values[0].item, len(m.values)-1
	case n.how == ByNetwork && len(m.networks) > 0:
		n.entry.Value, n.more = m.networks[0].item.String(), len(m.networks)-1
	case n.how == ByRegex:
		n.entry.Value = m.text
	}
	return n
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
