package descriptors

import (
	"regexp"
	"strings"

	"weir/internal/limiter"
)

// label is what metrics call a level: key, or key_value.
func label(c *descriptorConfig) string {
	if c.value == "" {
		return sanitize(c.key)
	}
	return sanitize(c.key + "_" + c.value)
}

var (
	notInLabels = strings.NewReplacer(":", "_", "|", "_")
	ipv4        = regexp.MustCompile(`\d{1,3}(\.\d{1,3}){3}`)
)

// sanitize spells a label as the metrics of the reference do, so that
// dashboards keep working: without ':' and '|', and without the dots of IPv4
// addresses. Bytes that are not UTF-8, which Prometheus refuses, become '_'.
func sanitize(s string) string {
	s = notInLabels.Replace(strings.ToValidUTF8(s, "_"))
	return ipv4.ReplaceAllStringFunc(s, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}

// limitLabel is what metrics call a limit that has others beside it in its rule:
// its name, or how it counts, in which it differs from the others.
func limitLabel(l *limiter.Limit) string {
	switch {
	case l.Name != "":
		return strings.ToValidUTF8(l.Name, "_")
	case l.Unlimited:
		return "unlimited"
	}
	words := append([]string{period(l)}, describeCounting(l)...)
	if l.Trial {
		words = append(words, "shadow_mode")
	}
	return strings.Join(words, " ")
}
