package descriptors

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/limiter"
)

// levelLabel is what metrics call a level of a rule. They are spelled as those
// of envoyproxy/ratelimit, so that dashboards keep working.
type levelLabel struct {
	text   string // key, or key_value
	valued bool   // the value of the request follows, if it is not empty
}

// valuedLabels returns those of a rule's levels if values of requests belong in them,
// else nil: those of all levels for detailed_metric. Where there is one value, or
// share_threshold lets all count as one, there is nothing to ask for.
func valuedLabels(way []step, detailed bool) []levelLabel {
	isValued := func(s step) bool {
		return s.node.how != ByValue && s.node.how != Nowhere && !s.share && (detailed || s.valueToMetric)
	}
	if !slices.ContainsFunc(way, isValued) {
		return nil
	}
	labels := make([]levelLabel, len(way))
	for i, s := range way {
		if labels[i].text = s.label; isValued(s) {
			labels[i] = levelLabel{sanitize(s.node.entry.Key), true}
		}
	}
	return labels
}

// label is what metrics call the level of n as long as no value is asked for.
func (n *node) label() string {
	if n.how == ByKey || n.how == Nowhere {
		return sanitize(n.entry.Key)
	}
	return sanitize(n.entry.Key + "_" + n.value())
}

// maxLabelValue is how many bytes of a request's value a label holds at most.
const maxLabelValue = 128

// AppendLabels appends to dst what metrics call the levels of the rule for a
// request that matched it with entries, as limiter.Hit.Labels wants it: nothing
// if they hold no values of requests. It does not allocate.
func (r *Rule) AppendLabels(dst []byte, entries []limiter.Entry) []byte {
	for i, l := range r.labels {
		dst = append(dst, l.text...)
		if value := entries[i].Value; l.valued && value != "" {
			dst = appendLabel(append(dst, '_'), value[:min(len(value), maxLabelValue)])
		}
		dst = append(dst, limiter.LevelEnd)
	}
	return dst
}

// sanitize spells a text of the configuration as a label.
func sanitize(s string) string { return string(appendLabel(nil, s)) }

// appendLabel appends s as a label, which is also a part of a name of statsd:
// without ':' and '|', without the dots of IPv4 addresses, and without control
// characters and bytes that are not UTF-8, which Prometheus refuses; all of them
// become '_', runs of such bytes a single one.
func appendLabel(dst []byte, s string) []byte {
	wasBroken, addressEnd := false, 0
	for i, r := range s {
		if i >= addressEnd {
			addressEnd = i + ipv4(s[i:])
		}
		isBroken := r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD")
		switch {
		case isBroken && wasBroken: // the run has its '_' already
		case isBroken || r < ' ' || r == 0x7f || r == ':' || r == '|' || r == '.' && i < addressEnd:
			dst = append(dst, '_')
		default:
			dst = utf8.AppendRune(dst, r)
		}
		wasBroken = isBroken
	}
	return dst
}

// ipv4 returns the length of what looks like an IPv4 address at the start of s:
// four groups of one to three digits.
func ipv4(s string) int {
	n, dots, digits := 0, 0, 0
	for ; n < len(s); n++ {
		if '0' <= s[n] && s[n] <= '9' && digits < 3 {
			digits++
		} else if s[n] == '.' && digits > 0 && dots < 3 {
			dots, digits = dots+1, 0
		} else {
			break
		}
	}
	if dots < 3 || digits == 0 {
		return 0
	}
	return n
}

// limitLabel is what metrics call a limit within its rule: its name, or how it
// counts, in which it differs from others of the rule.
func limitLabel(l *limiter.Limit) string {
	switch {
	case l.Name != "":
		return strings.ReplaceAll(strings.ToValidUTF8(l.Name, "_"), "\x00", "_")
	case l.Unlimited:
		return "unlimited"
	}
	words := []string{l.Per()}
	if l.Algorithm != limiter.FixedWindow {
		words = append(words, l.Algorithm.String())
	}
	if l.TimeZone != "" {
		words = append(words, l.TimeZone)
	}
	if l.Nth > 0 {
		words = append(words, fmt.Sprint(l.Nth))
	}
	return strings.Join(words, " ")
}
