package descriptors

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"weir/internal/limiter"
	"weir/internal/plaintext"
)

// dumpHead says what the lines of Dump mean.
const dumpHead = `# One limit per line, as the rules configure it: what is used or left is not shown.
# requests_per_unit is what one unit admits, or as many units as unit_multiplier says.
# unlimited: true admits everything, whatever unit and requests_per_unit are; no limit is a rule that counts nothing.
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
			fmt.Fprintf(b, "%s: %s\n", name, strings.Join(append([]string{"no limit"}, options...), ", "))
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
	for n := r.node; n != nil; n = n.parent {
		word := n.entry.Key
		if n.entry.Value != "" {
			word += "_" + n.entry.Value
		}
		words = append(words, plaintext.Line(word))
	}
	slices.Reverse(words)
	return strings.Join(words, ".")
}

// String is the rule's domain and entries, such as api|user=alice|path.
func (r *Rule) String() string { return strings.Join(r.node.words(), "|") }

// Place is where the rule is written, such as config/api.yaml:9:5.
func (r *Rule) Place() string {
	return Problem{File: r.file, Line: r.at.Line, Column: r.at.Column}.String()
}

// way is Rule.String without the domain.
func (n *node) way() string { return strings.Join(n.words()[1:], "|") }

func (n *node) words() []string {
	var words []string
	for ; n != nil; n = n.parent {
		words = append(words, Spell(n.entry))
	}
	slices.Reverse(words)
	return words
}

// options are what a rule says of all its limits.
func (r *Rule) options() []string {
	var options []string
	if r.Patterns != nil {
		options = append(options, "share_threshold: true")
	}
	if r.detailedMetric {
		options = append(options, "detailed_metric: true")
	}
	if r.valueToMetric {
		options = append(options, "value_to_metric: true")
	}
	if r.Metadata != nil {
		// Marshal cannot fail: Load made the values of what JSON has.
		data, _ := json.Marshal(r.Metadata)
		options = append(options, "metadata: "+plaintext.Line(string(data)))
	}
	return options
}

// describeLimit tells unit, amount and modes, then what is not the default. The
// unit of an unlimited limit is UNKNOWN.
func describeLimit(l *limiter.Limit) []string {
	parts := []string{
		fmt.Sprintf("unit=%s requests_per_unit=%d", strings.ToUpper(l.Unit.String()), l.RequestsPerUnit),
		fmt.Sprintf("shadow_mode: %t", l.Mode == limiter.Shadow),
		fmt.Sprintf("quota_mode: %t", l.Mode == limiter.Quota),
	}
	if l.Unlimited {
		parts = append(parts, "unlimited: true")
	}
	if l.UnitMultiplier > 1 {
		parts = append(parts, fmt.Sprintf("unit_multiplier: %d", l.UnitMultiplier))
	}
	if l.Algorithm != limiter.FixedWindow {
		parts = append(parts, "algorithm: "+l.Algorithm.String())
	}
	if l.Anchor != limiter.Epoch {
		parts = append(parts, "anchor: "+anchors[l.Anchor])
	}
	if l.Burst > 0 {
		parts = append(parts, fmt.Sprintf("burst: %d", l.Burst))
	}
	if l.Charge != limiter.ByDefault {
		parts = append(parts, "charge: "+charges[l.Charge-limiter.Auto])
	}
	if l.FailureMode != limiter.FailureByDefault {
		parts = append(parts, "failure_mode: "+l.FailureMode.String())
	}
	if l.Name != "" {
		parts = append(parts, "name: "+word(l.Name))
	}
	for _, name := range l.Replaces {
		parts = append(parts, "replaces: "+word(name))
	}
	return parts
}

// describeCounting names the algorithm and the anchor that are not the default.
func describeCounting(l *limiter.Limit) []string {
	var words []string
	if l.Algorithm != limiter.FixedWindow {
		words = append(words, l.Algorithm.String())
	}
	if l.Anchor != limiter.Epoch {
		words = append(words, anchors[l.Anchor])
	}
	return words
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
