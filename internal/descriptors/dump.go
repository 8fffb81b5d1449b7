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
// the files: domain and entries, the limit, then what else was configured.
func (t *Tree) Dump(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, r := range t.rules {
		fmt.Fprintf(b, "%s: %s\n", r, strings.Join(r.describe(), ", "))
	}
	return b.Flush()
}

// String is the rule's domain and entries, such as api|user=alice|path.
func (r *Rule) String() string {
	var words []string
	for n := r.node; n != nil; n = n.parent {
		words = append(words, spell(n.entry))
	}
	slices.Reverse(words)
	return strings.Join(words, "|")
}

func (r *Rule) describe() []string {
	parts := describeLimit(r.Limit)
	if r.Patterns != nil {
		parts = append(parts, "share_threshold")
	}
	if r.DetailedMetric {
		parts = append(parts, "detailed_metric")
	}
	if r.ValueToMetric != nil {
		parts = append(parts, "value_to_metric")
	}
	if r.Metadata != nil {
		// Marshal cannot fail: Load made the values of what JSON has.
		data, _ := json.Marshal(r.Metadata)
		parts = append(parts, "metadata "+string(data))
	}
	return parts
}

func describeLimit(l *limiter.Limit) []string {
	var parts []string
	switch {
	case l == nil:
		return []string{"no limit"}
	case l.Unlimited:
		parts = append(parts, "unlimited")
	default:
		parts = append(parts, fmt.Sprintf("%d per %s", l.RequestsPerUnit, l.Unit))
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
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar || strings.ContainsRune("|=,:\" ", r) {
			return strconv.Quote(s)
		}
	}
	return s
}
