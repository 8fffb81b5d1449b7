package limiter

import "strings"

// LabelSet has the labels of a limit's metrics. The labels come from the configuration, so traffic
// cannot add series. The exceptions are rules whose labels contain values of requests; see
// Hit.Labels. No label contains LevelEnd.
type LabelSet struct {
	Domain string
	Key1   string // first level of the rule: key, or key_value
	Key2   string // second level, empty if there is none
	More   string // further levels, joined by '.'
	Rule   string // keys and values that lead to the rule
	Limit  string // distinguishes limits of the rule
}

// LevelEnd is the byte that ends each level of Hit.Labels.
const LevelEnd = 0

const labelEnd = string(rune(LevelEnd))

// NewLabelSet returns the labels for a domain and for levels in the form of Hit.Labels. Rule and
// Limit are empty.
func NewLabelSet(domain, levels string) LabelSet {
	l := LabelSet{Domain: domain}
	l.Key1, levels, _ = strings.Cut(levels, labelEnd)
	l.Key2, levels, _ = strings.Cut(levels, labelEnd)
	l.More = strings.ReplaceAll(strings.TrimSuffix(levels, labelEnd), labelEnd, ".")
	return l
}

// Series is a LabelSet encoded as one string, which takes less memory. It omits Rule and Limit if
// both are empty.
type Series string

// Series encodes l.
func (l LabelSet) Series() Series {
	text := strings.Join([]string{l.Domain, l.Key1, l.Key2, l.More, l.Rule, l.Limit}, labelEnd)
	if l.Rule == "" && l.Limit == "" {
		text = text[:len(text)-2*len(labelEnd)]
	}
	return Series(text)
}

// Labels returns the LabelSet of s.
func (s Series) Labels() (l LabelSet) {
	rest := string(s)
	for _, label := range []*string{&l.Domain, &l.Key1, &l.Key2, &l.More, &l.Rule} {
		*label, rest, _ = strings.Cut(rest, labelEnd)
	}
	l.Limit = rest
	return l
}

// Domain returns the domain of s.
func (s Series) Domain() string { return string(s.first(1)) }

// Keys returns s without More, Rule and Limit. The result never equals a full Series.
func (s Series) Keys() Series { return s.first(3) }

// Levels returns s without Rule and Limit.
func (s Series) Levels() Series { return s.first(4) }

// Rule returns s without Limit.
func (s Series) Rule() Series { return s.first(5) }

// first returns the first n labels of s.
func (s Series) first(n int) Series {
	for i := range len(s) {
		if s[i] != LevelEnd {
			continue
		}
		if n--; n == 0 {
			return s[:i]
		}
	}
	return s
}
