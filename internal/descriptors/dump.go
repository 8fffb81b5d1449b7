package descriptors

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

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

func (r *Rule) describe() []string {
	if r.Limit == nil {
		return r.describeOptions([]string{"no limit"})
	}
	l := r.Limit
	parts := []string{fmt.Sprintf("%d per %s", l.RequestsPerUnit, l.Unit)}
	if l.Unlimited {
		parts[0] = "unlimited"
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
	return r.describeOptions(parts)
}

func (r *Rule) describeOptions(parts []string) []string {
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
