package descriptors

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"weir/internal/limiter"
)

// naive finds the rules for a descriptor by searching all rules in the order of the file, as
// docs/rules.md describes.
type naive []naiveNode

type naiveNode struct {
	id             int
	key            string
	text           string // the field with the values, in YAML
	field          string // value, networks or regex
	values         []string
	networks       []netip.Prefix
	regex          *regexp.Regexp
	limited, below bool
	hold           string // key of the entry that names a hold, or ""
	children       naive
}

// judgedRule is a rule that applies to a descriptor.
type judgedRule struct {
	id     int // line of the rule
	levels int // number of entries in the key of its counter
	hold   string
	all    bool // the rule has no key, so that the key of its counter has all entries
}

// matchHold returns the rules that apply to a descriptor, and the index of the entry that names
// their hold, or -1. An entry names a hold if it is the first with its key, and the rules that match
// without it need a hold with this key. If no entry does, those that match with all entries decide.
func (list naive) matchHold(way []limiter.Entry) (rules []judgedRule, hold int) {
	find := func(way []limiter.Entry) (rules []judgedRule, key string) {
		rules = list.match(way, 0, nil)
		for _, r := range rules {
			key = cmp.Or(key, r.hold)
		}
		return rules, key
	}
	for i, e := range way {
		first := slices.IndexFunc(way, func(other limiter.Entry) bool { return other.Key == e.Key })
		if rules, key := find(slices.Delete(slices.Clone(way), i, i+1)); i == first && key != "" && key == e.Key {
			return rules, i
		}
	}
	rules, key := find(way)
	hold = slices.IndexFunc(way, func(e limiter.Entry) bool { return key != "" && e.Key == key })
	if hold >= 0 && rules[0].all {
		rules[0].levels--
	}
	return rules, hold
}

// match returns the rules that apply to a descriptor, the most specific first. below has the
// rules above that apply here, too.
func (list naive) match(way []limiter.Entry, levels int, below []judgedRule) []judgedRule {
	if levels == len(way) {
		return below
	}
	n := list.first(way[levels])
	if n == nil {
		if i := slices.IndexFunc(list, func(n naiveNode) bool { return n.key == "" }); i >= 0 {
			return append([]judgedRule{{list[i].id, len(way), list[i].hold, true}}, below...)
		}
		return below
	}
	levels++
	own := append([]judgedRule{{n.id, levels, n.hold, false}}, below...)
	if isRule := n.limited || n.below || len(n.children) == 0; isRule && levels == len(way) {
		return own
	}
	if n.below {
		below = own
	}
	return n.children.match(way, levels, below)
}

// first returns the node to which an entry leads, or nil.
func (list naive) first(e limiter.Entry) *naiveNode {
	find := func(fits func(n naiveNode) bool) *naiveNode {
		if i := slices.IndexFunc(list, func(n naiveNode) bool { return n.key == e.Key && n.key != "" && fits(n) }); i >= 0 {
			return &list[i]
		}
		return nil
	}
	if n := find(func(n naiveNode) bool {
		return n.field == "value" && n.text == e.Value || slices.Contains(n.values, e.Value)
	}); n != nil {
		return n
	}
	if address, err := netip.ParseAddr(e.Value); err == nil {
		address = address.WithZone("").Unmap()
		for bits := 128; bits >= 0; bits-- {
			if n := find(func(n naiveNode) bool {
				return slices.ContainsFunc(n.networks, func(p netip.Prefix) bool { return p.Bits() == bits && p.Contains(address) })
			}); n != nil {
				return n
			}
		}
	}
	if n := find(func(n naiveNode) bool { return n.regex != nil && n.regex.MatchString(e.Value) }); n != nil {
		return n
	}
	return find(func(n naiveNode) bool { return n.field == "value" && n.text == "" })
}

// naiveTree parses a tree. Each line is key=value, indented by one space per level. A value that
// begins with [ is a list, with < it is networks, and with ~ a regular expression. A line that
// begins with a dot has a limit, and a line that begins with an exclamation mark has a limit
// that applies below. A + after this mark makes it a concurrency limit whose holds the entry h names;
// with a -, the entry g names them. A line with only a limit is a rule without a key. naiveTree
// skips nodes that Load would refuse.
func naiveTree(text string) naive {
	root, id := naiveNode{}, 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		entry := strings.TrimLeft(line, " ")
		parent := &root
		for range len(line) - len(entry) {
			if last := len(parent.children) - 1; last >= 0 && parent.children[last].key != "" {
				parent = &parent.children[last]
			}
		}
		id++
		n := naiveNode{id: id, limited: strings.HasPrefix(entry, "."), below: strings.HasPrefix(entry, "!")}
		if n.limited || n.below {
			entry = entry[1:]
			if hold, is := strings.CutPrefix(entry, "+"); is {
				n.hold, entry = "h", hold
			} else if hold, is := strings.CutPrefix(entry, "-"); is {
				n.hold, entry = "g", hold
			}
		}
		key, value, _ := strings.Cut(entry, "=")
		isRule := key != "" || n.limited && value == "" && !slices.ContainsFunc(parent.children, func(s naiveNode) bool { return s.key == "" })
		if n.key = key; isRule && n.read(value, parent.children) {
			parent.children = append(parent.children, n)
		}
	}
	return root.children
}

// read parses the value of a node, and reports whether the node is allowed beside siblings.
func (n *naiveNode) read(value string, siblings naive) bool {
	known := func(same func(s naiveNode) bool) bool {
		return slices.ContainsFunc(siblings, func(s naiveNode) bool { return s.key == n.key && same(s) })
	}
	kind, rest := "", value
	if value != "" && strings.ContainsAny(value[:1], "[<~") {
		kind, rest = value[:1], value[1:]
	}
	switch n.text = rest; kind {
	case "[":
		n.field = "list"
		var wildcards []string
		for item := range strings.SplitSeq(rest, ",") {
			if item != "" && !slices.Contains(n.values, item) &&
				!known(func(s naiveNode) bool { return s.field == "value" && s.text == item || slices.Contains(s.values, item) }) {
				n.values = append(n.values, item)
				if strings.Contains(item, "*") {
					wildcards = append(wildcards, strings.ReplaceAll(regexp.QuoteMeta(item), `\*`, `(?s:.*)`))
				}
			}
		}
		if wildcards != nil {
			n.regex = regexp.MustCompile("^(?:" + strings.Join(wildcards, "|") + ")$")
		}
		return len(n.values) > 0
	case "<":
		n.field = "networks"
		for item := range strings.SplitSeq(rest, ",") {
			p, err := netip.ParsePrefix(item)
			if p = p.Masked(); err == nil && !p.Addr().Is4In6() && !slices.Contains(n.networks, p) &&
				!known(func(s naiveNode) bool { return slices.Contains(s.networks, p) }) {
				n.networks = append(n.networks, p)
			}
		}
		return len(n.networks) > 0
	case "~":
		n.field = "regex"
		if _, err := regexp.Compile(rest); err != nil || rest == "" || known(func(s naiveNode) bool { return s.field == "regex" && s.text == rest }) {
			return false
		}
		var err error
		n.regex, err = regexp.Compile("^(?s:" + rest + ")$")
		return err == nil
	default:
		n.field = "value"
		if strings.Contains(value, "*") {
			n.regex = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(value), `\*`, `(?s:.*)`) + "$")
		}
		return !known(func(s naiveNode) bool {
			return s.field == "value" && s.text == value || slices.Contains(s.values, value)
		})
	}
}

func (list naive) yaml() string {
	items := make([]string, len(list))
	for i, n := range list {
		field, what := n.field, fmt.Sprintf("%q", n.text)
		switch n.field {
		case "list":
			field, what = "value", fmt.Sprintf(`["%s"]`, strings.Join(quoted(n.values), `", "`))
		case "networks":
			what = fmt.Sprintf("[%q]", n.networks[0])
			for _, p := range n.networks[1:] {
				what = what[:len(what)-1] + fmt.Sprintf(", %q]", p)
			}
		}
		limit := ""
		if n.limited || n.below {
			limit = fmt.Sprintf("below: %t, rate_limit: {unit: day, requests_per_unit: 1%s}, ", n.below, inFlight(n.hold))
		}
		if n.key == "" {
			items[i] = fmt.Sprintf("{metadata: {id: %d}, %s}", n.id, strings.TrimPrefix(strings.TrimSuffix(limit, ", "), "below: false, "))
			continue
		}
		items[i] = fmt.Sprintf("{key: %q, %s: %s, metadata: {id: %d}, %sdescriptors: [%s]}", n.key, field, what, n.id, limit, n.children.yaml())
	}
	return strings.Join(items, ", ")
}

// inFlight returns the fields of a concurrency limit, or "" if hold is empty.
func inFlight(hold string) string {
	if hold == "" {
		return ""
	}
	return ", algorithm: concurrency, hold: " + hold
}

// quoted returns texts escaped for double quotes.
func quoted(texts []string) (list []string) {
	for _, text := range texts {
		q := fmt.Sprintf("%q", text)
		list = append(list, q[1:len(q)-1])
	}
	return list
}
