package descriptors

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/limiter"
)

// levelLabel is the name of a rule's level in metrics. It has the form that envoyproxy/ratelimit uses,
// so that dashboards keep working.
type levelLabel struct {
	text      string // key, or key_value
	withValue bool   // the request's value follows, unless it is empty
}

// valuedLabels returns the labels of a rule's levels, or nil if none contains values of
// requests. detailed asks for the values of all levels. Levels with a single value, and levels
// whose values share a counter, never contain values of requests.
func valuedLabels(way []pathNode, detailed bool) []levelLabel {
	hasValue := func(s pathNode) bool {
		return s.node.how != ByValue && s.node.how != Nowhere && !s.share && (detailed || s.valueToMetric)
	}
	if !slices.ContainsFunc(way, hasValue) {
		return nil
	}
	labels := make([]levelLabel, len(way))
	for i, s := range way {
		if labels[i].text = s.label; hasValue(s) {
			labels[i] = levelLabel{sanitize(s.node.entry.Key), true}
		}
	}
	return labels
}

// label returns the name of n's level in metrics, without values of requests.
func (n *node) label() string {
	if n.how == ByKey || n.how == Nowhere {
		return sanitize(n.entry.Key)
	}
	return sanitize(n.entry.Key + "_" + n.value())
}

// maxLabelValue is the maximum length of a request's value in a label, in bytes.
const maxLabelValue = 128

// AppendLabels appends to dst the names of the rule's levels for a request whose descriptor
// matched with entries, in the format of limiter.Hit.Labels. It appends nothing if the names
// contain no values of requests. It does not allocate.
func (r *Rule) AppendLabels(dst []byte, entries []limiter.Entry) []byte {
	for i, l := range r.labels {
		dst = append(dst, l.text...)
		if value := entries[i].Value; l.withValue && value != "" {
			dst = appendLabel(append(dst, '_'), value[:min(len(value), maxLabelValue)])
		}
		dst = append(dst, limiter.LevelEnd)
	}
	return dst
}

func sanitize(s string) string { return string(appendLabel(nil, s)) }

// appendLabel appends s as a label, which is also part of a statsd name. It replaces ':', '|',
// control characters and the dots of IPv4 addresses with '_', and each run of bytes that are not
// UTF-8, which Prometheus refuses, with a single '_'.
func appendLabel(dst []byte, s string) []byte {
	wasBroken, addressEnd := false, 0
	for i, r := range s {
		if i >= addressEnd {
			addressEnd = i + ipv4(s[i:])
		}
		isBroken := r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD")
		switch {
		case isBroken && wasBroken: // the run already has a '_'
		case isBroken || r < ' ' || r == 0x7f || r == ':' || r == '|' || r == '.' && i < addressEnd:
			dst = append(dst, '_')
		default:
			dst = utf8.AppendRune(dst, r)
		}
		wasBroken = isBroken
	}
	return dst
}

// ipv4 returns the length of the text at the start of s that looks like an IPv4 address, four
// groups of up to three digits, or 0 if there is none.
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

// limitLabel returns the name of a limit in metrics: its own name or, if it has none, a
// description of how it counts. The descriptions of a rule's limits differ.
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
