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
)

// Dump writes the rules for people to read, one per line and in the order of
// the files: domain and entries, then each limit, then what else was configured.
func (t *Tree) Dump(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, r := range t.rules {
		fmt.Fprintf(b, "%s: %s\n", r, strings.Join(r.describe(), "; "))
	}
	return b.Flush()
}

// String is the rule's domain and entries, such as api|user=alice|path.
func (r *Rule) String() string { return strings.Join(r.words(), "|") }

// way is String without the domain.
func (r *Rule) way() string { return strings.Join(r.words()[1:], "|") }

func (r *Rule) words() []string {
	var words []string
	for n := r.node; n != nil; n = n.parent {
		words = append(words, spell(n.entry))
	}
	slices.Reverse(words)
	return words
}

func (r *Rule) describe() []string {
	var parts, options []string
	for _, l := range r.Limits {
		parts = append(parts, strings.Join(describeLimit(l), ", "))
	}
	if parts == nil {
		parts = []string{"no limit"}
	}
	if r.Patterns != nil {
		options = append(options, "share_threshold")
	}
	if r.detailedMetric {
		options = append(options, "detailed_metric")
	}
	if r.valueToMetric {
		options = append(options, "value_to_metric")
	}
	if r.Metadata != nil {
		// Marshal cannot fail: Load made the values of what JSON has.
		data, _ := json.Marshal(r.Metadata)
		options = append(options, "metadata "+string(data))
	}
	if options != nil {
		parts = append(parts, strings.Join(options, ", "))
	}
	return parts
}

func describeLimit(l *limiter.Limit) []string {
	parts := []string{"unlimited"}
	if !l.Unlimited {
		parts = append([]string{fmt.Sprintf("%d per %s", l.RequestsPerUnit, period(l))}, describeCounting(l)...)
	}
	if l.Burst > 0 {
		parts = append(parts, fmt.Sprintf("burst %d", l.Burst))
	}
	if l.Charge != limiter.ByDefault {
		parts = append(parts, "charge "+charges[l.Charge-limiter.Auto])
	}
	if l.Name != "" {
		parts = append(parts, "name "+word(l.Name))
	}
	for _, name := range l.Replaces {
		parts = append(parts, "replaces "+word(name))
	}
	switch l.Mode {
	case limiter.Shadow:
		parts = append(parts, "shadow_mode")
	case limiter.Quota:
		parts = append(parts, "quota_mode")
	}
	return parts
}

// describeCounting names the algorithm and the anchor that are not the default.
func describeCounting(l *limiter.Limit) []string {
	var words []string
	if l.Algorithm != limiter.FixedWindow {
		words = append(words, algorithms[l.Algorithm])
	}
	if l.Anchor != limiter.Epoch {
		words = append(words, anchors[l.Anchor])
	}
	return words
}

// period is the period of a limit in words: minute, or 5 minutes.
func period(l *limiter.Limit) string {
	if l.UnitMultiplier > 1 {
		return fmt.Sprintf("%d %ss", l.UnitMultiplier, l.Unit)
	}
	return l.Unit.String()
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
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar || strings.ContainsRune("|=,;:\" ", r) {
			return strconv.Quote(s)
		}
	}
	return s
}
