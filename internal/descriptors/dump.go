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

// dumpHead explains the lines of Dump.
const dumpHead = `# One limit per line, as the rules configure it: what is used or left is not shown.
# requests_per_unit is the amount per period; a period is unit_multiplier units.
# unlimited: true admits everything, whatever unit and requests_per_unit are; no limit is a rule that counts nothing.
# [a+2] is a list of values or networks that begins with a and has 2 more, ~ comes before a regular expression.
# from is where the rule is written, as file:line:column.
`

// Dump writes the limits of all rules, one per line in the order of the files. It uses the
// format of envoyproxy/ratelimit, whose users have scripts that read it:
//
//	domain.key_value.key: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false
//
// Other fields follow as in rule files, then the rule's location. A rule without limits has a
// line that says so. The first lines are comments, which begin with # and explain the format.
//
// Dump does not build the text in memory, because there may be many rules and slow readers.
func (t *Tree) Dump(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, dumpHead)
	for _, r := range t.rules {
		name, options := r.dotted(), append(r.options(), "from: "+r.Location())
		for _, l := range r.Limits {
			fmt.Fprintf(b, "%s: %s\n", name, strings.Join(append(describeLimit(l), options...), ", "))
		}
		if len(r.Limits) == 0 {
			fmt.Fprintf(b, "%s: no limit, %s\n", name, strings.Join(options, ", "))
		}
		if _, err := b.Write(nil); err != nil { // the reader has stopped
			return err
		}
	}
	return b.Flush()
}

// dotted returns the path to the rule as envoyproxy/ratelimit writes it. It is ambiguous,
// because keys and values may contain the separators.
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

// String returns the rule's domain and entries, such as api|user=alice|path.
func (r *Rule) String() string { return strings.Join(r.Words(), "|") }

// Words returns the parts of String: the domain and the entries.
func (r *Rule) Words() []string { return r.node.words() }

func (n *node) words() []string {
	path := n.path()
	words := make([]string, len(path))
	for i, n := range path {
		words[i] = n.word()
	}
	return words
}

// Way returns the part of String after the domain. This part is the rule's name in metrics.
func (r *Rule) Way() string { return r.node.way() }

func (n *node) way() string { return strings.Join(n.words()[1:], "|") }

// Entries returns the domain of r and entries that lead to r. If every value leads to a level, the
// value of its entry is empty. If a list does, the value is its first item. Wildcards and regular
// expressions are returned as text. For a rule without a key, the entries lead to the level of the rule.
func (r *Rule) Entries() (domain string, entries []limiter.Entry) {
	path := r.node.path()
	for _, n := range path[1:] {
		if n.how != Nowhere {
			entries = append(entries, n.entry)
		}
	}
	return path[0].entry.Key, entries
}

// path returns the nodes from the domain to n.
func (n *node) path() (way []*node) {
	for ; n != nil; n = n.parent {
		way = append(way, n)
	}
	slices.Reverse(way)
	return way
}

// word returns n in the form of Spell, but does not quote the name of a rule without a key or of a
// node that tooLong made. Spell quotes these names, so a key with the same text looks different.
func (n *node) word() string {
	if n.parent != nil && n.how == Nowhere || n.how == TooLong {
		return n.entry.Key
	}
	return Spell(n.shown())
}

// Location returns the rule's location, such as config/api.yaml:9:5.
func (r *Rule) Location() string { return r.node.here().String() }

func (n *node) at() strictyaml.Position {
	return strictyaml.Position{Line: int(n.line), Column: int(n.column)}
}

func (n *node) here() Problem {
	return Problem{File: n.file, Line: int(n.line), Column: int(n.column)}
}

// location returns a problem without a message at n. If n has no line, the problem has a path.
func (n *node) location() Problem {
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

// options returns the fields of a rule that apply to all its limits.
func (r *Rule) options() (f shownFields) {
	f.add(r.Patterns != nil, "share_threshold", true)
	f.add(r.below, "below", true)
	f.add(r.IsDivided(), "quota_service", true)
	f.add(r.Override != nil, "override", r.Override)
	f.add(r.detailedMetric, "detailed_metric", true)
	f.add(r.valueToMetric, "value_to_metric", true)
	if r.Metadata != nil {
		// Marshal cannot fail, because Load accepts only the types of JSON.
		data, _ := json.Marshal(r.Metadata)
		f.add(true, "metadata", plaintext.Line(string(data)))
	}
	return f
}

// shownFields are fields in the form of rule files, such as below: true.
type shownFields []string

func (f *shownFields) add(isSet bool, field string, value any) {
	if isSet {
		*f = append(*f, fmt.Sprintf("%s: %v", field, value))
	}
}

// ModeWord returns the name of the field that selects the mode m, or "enforced" for Enforced.
func ModeWord(m limiter.Mode) string {
	return [...]string{limiter.Enforced: "enforced", limiter.Shadow: "shadow_mode", limiter.Quota: "quota_mode"}[m]
}

// ChargeWord returns the word for c in rules. c must not be limiter.ByDefault.
func ChargeWord(c limiter.Charge) string { return charges[c-limiter.Auto] }

// SpellDuration formats a duration as in rule files, such as 10m instead of 10m0s.
func SpellDuration(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}

// Spell formats an entry for people: key=value, or key if there is no value.
func Spell(e limiter.Entry) string {
	if e.Value == "" {
		return word(e.Key)
	}
	return word(e.Key) + "=" + word(e.Value)
}

// word quotes s if it contains a separator or a character that is not graphic.
func word(s string) string {
	for _, r := range s {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar || strings.ContainsRune("|=,;:\" ", r) {
			return strconv.Quote(s)
		}
	}
	return s
}
