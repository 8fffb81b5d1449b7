package limiter

import (
	"strings"
	"sync/atomic"
)

// Series holds the labels under which a limit's hits are counted. Prometheus
// knows the first two levels of a rule, statsd all of them.
//
// Labels come from the configuration, so that traffic cannot add series, but
// for rules that ask for the values of requests: see Hit.Labels.
type Series struct {
	Domain string
	Key1   string // first level of the rule: key, or key_value
	Key2   string // second level, empty if there is none
	More   string // further levels, joined by '.'
}

// SeriesName spells a Series as one text, because every limit has one.
type SeriesName string

// nameEnd ends each part of a SeriesName but the last. No part holds it.
const nameEnd = string(rune(LevelEnd))

// Name spells s.
func (s Series) Name() SeriesName {
	return SeriesName(strings.Join([]string{s.Domain, s.Key1, s.Key2, s.More}, nameEnd))
}

// Series returns what n spells.
func (n SeriesName) Series() (s Series) {
	rest := string(n)
	s.Domain, rest, _ = strings.Cut(rest, nameEnd)
	s.Key1, rest, _ = strings.Cut(rest, nameEnd)
	s.Key2, s.More, _ = strings.Cut(rest, nameEnd)
	return s
}

// domain is Series.Domain.
func (n SeriesName) domain() string {
	domain, _, _ := strings.Cut(string(n), nameEnd)
	return domain
}

// OwnSeries holds, beside Series.Domain, the label values of metrics that a
// limit shares with no other. Limits have them that are not alone in their rule.
type OwnSeries struct {
	Rule  string // keys and values that lead to the rule
	Limit string // tells the limits of a rule apart
}

// LevelEnd ends each level of Hit.Labels. No label holds it.
const LevelEnd = 0

// NewSeries returns the series of a domain and of levels that are spelled like
// Hit.Labels.
func NewSeries(domain, labels string) Series {
	s := Series{Domain: domain}
	s.Key1, labels, _ = strings.Cut(labels, nameEnd)
	s.Key2, labels, _ = strings.Cut(labels, nameEnd)
	s.More = strings.ReplaceAll(strings.TrimSuffix(labels, nameEnd), nameEnd, ".")
	return s
}

// Units are the sums of a series, in units of cost. docs/metrics.md tells what
// each means.
type Units struct {
	TotalHits, OverLimit, NearLimit, WithinLimit, ShadowMode, OverLimitWithLocalCache uint64
}

func (u *Units) add(v Units) {
	u.TotalHits += v.TotalHits
	u.OverLimit += v.OverLimit
	u.NearLimit += v.NearLimit
	u.WithinLimit += v.WithinLimit
	u.ShadowMode += v.ShadowMode
	u.OverLimitWithLocalCache += v.OverLimitWithLocalCache
}

// seriesCounters count the Units of one series.
type seriesCounters struct {
	total, over, near, within, shadow, remembered atomic.Uint64
}

func (c *seriesCounters) units() Units {
	return Units{
		TotalHits: c.total.Load(), OverLimit: c.over.Load(), NearLimit: c.near.Load(),
		WithinLimit: c.within.Load(), ShadowMode: c.shadow.Load(), OverLimitWithLocalCache: c.remembered.Load(),
	}
}
