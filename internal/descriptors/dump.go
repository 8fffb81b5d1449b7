package descriptors

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"weir/internal/descriptors/plaintext"
	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// dumpHead says what the lines of Dump mean.
const dumpHead = `# One limit per line, as the rules configure it: what is used or left is not shown.
# requests_per_unit is the amount per period; a period is unit_multiplier units.
# unlimited: true admits everything, whatever unit and requests_per_unit are; no limit is a rule that counts nothing.
# [a+2] is a list of values or networks that begins with a and has 2 more, ~ comes before a regular expression.
# from is where the rule is written, as file:line:column.
`

// Dump writes the limits of all rules, one per line and in the order of the
// files, as envoyproxy/ratelimit does, whose users have scripts that read it:
//
//	domain.key_value.key: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false
//
// What else was configured follows in the words of rule files, and then where the
// rule is written. A rule without limits, a whitelist entry, has a line that says
// so. Lines that begin with # come first and say what all this means.
//
// It writes little by little, and keeps nothing: there may be many rules, and
// readers may be slow.
func (t *Tree) Dump(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, dumpHead)
	for _, r := range t.rules {
		name, options := r.dotted(), append(r.options(), "from: "+r.Place())
		for _, l := range r.Limits {
			fmt.Fprintf(b, "%s: %s\n", name, strings.Join(append(describeLimit(l), options...), ", "))
		}
		if len(r.Limits) == 0 {
			fmt.Fprintf(b, "%s: no limit, %s\n", name, strings.Join(options, ", "))
		}
		if _, err := b.Write(nil); err != nil { // nobody reads on
			return err
		}
	}
	return b.Flush()
}

// dotted is the way to the rule as the reference spells it, which does not tell
// where a key ends and its value begins.
func (r *Rule) dotted() string {
	var words []string
	for _, n := range r.node.path() {
		word := n.entry.Key
		if value := n.value(); value != "" {
			word += "_" + value
		}
		words = append(words, plaintext.Line(word))
	}
	return strings.Join(words, ".")
}

// String is the rule's domain and entries, such as api|user=alice|path.
func (r *Rule) String() string { return strings.Join(r.Words(), "|") }

// Words are the parts of String.
func (r *Rule) Words() []string { return r.node.words() }

func (n *node) words() (words []string) {
	for _, n := range n.path() {
		words = append(words, n.word())
	}
	return words
}

// Way is String without the domain, as the metrics call the rule.
func (r *Rule) Way() string { return r.node.way() }

// way is the entries that lead from the domain to n.
func (n *node) way() string { return strings.Join(n.words()[1:], "|") }

// Entries returns the domain of r, and entries that lead to r: without the values that can
// be any, and with one of a list; those of patterns are their texts. A rule without key has those that lead to its level.
func (r *Rule) Entries() (domain string, entries []limiter.Entry) {
	path := r.node.path()
	for _, n := range path[1:] {
		if n.how != Nowhere {
			entries = append(entries, n.entry)
		}
	}
	return path[0].entry.Key, entries
}

// path returns the nodes from the domain down to n.
func (n *node) path() (way []*node) {
	for ; n != nil; n = n.parent {
		way = append(way, n)
	}
	slices.Reverse(way)
	return way
}

// word is n as Spell writes it. A key that has the name of a rule without key is quoted.
func (n *node) word() string {
	if n.parent != nil && n.how == Nowhere || n.how == TooLong {
		return n.entry.Key
	}
	return Spell(n.named())
}

// Place is where the rule is written, such as config/api.yaml:9:5.
func (r *Rule) Place() string { return r.node.here().String() }

func (n *node) at() strictyaml.Position {
	return strictyaml.Position{Line: int(n.line), Column: int(n.column)}
}

func (n *node) here() Problem {
	return Problem{File: n.file, Line: int(n.line), Column: int(n.column)}
}

// place is where n is written, as a problem without message. What has no line has a path.
func (n *node) place() Problem {
	p := n.here()
	if p.Line > 0 || n.parent == nil {
		return p
	}
	for _, level := range n.path()[1:] {
		p.Path += fmt.Sprintf(".descriptors[%d]", level.index)
	}
	p.Path = p.Path[1:]
	return p
}

// options are what a rule says of all its limits.
func (r *Rule) options() (options []string) {
	add := func(is bool, text string) {
		if is {
			options = append(options, text)
		}
	}
	add(r.Patterns != nil, "share_threshold: true")
	add(r.below, "below: true")
	if r.Override != nil {
		add(true, "override: "+r.Override.String())
	}
	add(r.detailedMetric, "detailed_metric: true")
	add(r.valueToMetric, "value_to_metric: true")
	if r.Metadata != nil {
		// Marshal cannot fail: Load made the values of what JSON has.
		data, _ := json.Marshal(r.Metadata)
		add(true, "metadata: "+plaintext.Line(string(data)))
	}
	return options
}

// ModeWord names a mode by the field that asks for it.
func ModeWord(m limiter.Mode) string {
	return [...]string{limiter.Enforced: "enforced", limiter.Shadow: "shadow_mode", limiter.Quota: "quota_mode"}[m]
}

// ChargeWord names a charge that is not by default.
func ChargeWord(c limiter.Charge) string { return charges[c-limiter.Auto] }

// SpellDuration writes a duration as rules do: 10m for 10m0s.
func SpellDuration(d time.Duration) string {
	text := strings.Replace(d.String(), "m0s", "m", 1)
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Spell writes an entry for people: key=value, or key if there is no value.
func Spell(e limiter.Entry) string {
	if e.Value == "" {
		return word(e.Key)
	}
	return word(e.Key) + "=" + word(e.Value)
}

// word quotes s if that is needed to tell where it begins and ends.
func word(s string) string {
	for _, r := range s {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar || strings.ContainsRune("|=,;:\" ", r) {
			return strconv.Quote(s)
		}
	}
	return s
}
