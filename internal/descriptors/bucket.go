package descriptors

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// Buckets returns the rules with quota_service.
func (t *Tree) Buckets() []*Rule { return t.buckets }

// MatchBucket returns the rule with quota_service to which the entries of a bucket ID lead in some
// order, and the entries in that order, with canonical addresses if networks match. If several orders
// lead to rules, the order that comes first in the files takes precedence. If none does, both are nil.
func (t *Tree) MatchBucket(domain string, entries []limiter.Entry) (*Rule, []limiter.Entry) {
	if len(t.buckets) == 0 {
		return nil, nil
	}
	keys, work := make([]string, len(entries)), MaxWork
	for i, e := range entries {
		keys[i] = e.Key
	}
	for _, order := range t.orders[unordered(domain, keys)] {
		ordered, n := make([]limiter.Entry, len(order)), t.domains[domain]
		for i, key := range order {
			ordered[i] = entries[slices.Index(keys, key)]
			next := n.next(ordered[i], &work)
			if next == nil || next.how == TooLong {
				n = nil
				break
			}
			if p := n.patterns[key]; next.how == ByNetwork || next.how == ByKey && p != nil && p.networks != nil {
				ordered = canonical(ordered, i)
			}
			n = next
		}
		if n != nil && n.quota != nil {
			return n.quota, ordered
		}
	}
	return nil, nil
}

// unordered returns a name for a domain and a set of keys. The order of the keys does not matter.
func unordered(domain string, keys []string) string {
	return fmt.Sprintf("%q", append([]string{domain}, slices.Sorted(slices.Values(keys))...))
}

// Refill returns the fill rate of a share of l whose token bucket has size 1, as tokens and the seconds that
// they take. Both are whole because Envoy ignores fractions. A share of size n fills n times as fast.
func Refill(l *limiter.Limit) (tokens, seconds uint64) {
	if l.RequestsPerUnit == 0 {
		return 1, 1
	}
	tokens, seconds = l.RequestsPerUnit, uint64(l.Period()/time.Second)*l.Size()
	common, rest := tokens, seconds // Euclid's algorithm
	for rest > 0 {
		common, rest = rest, common%rest
	}
	return tokens / common, seconds / common
}

// bucketFields are the fields that a rule with quota_service may have. bucketLimit are the fields
// that the limit of such a rule may have.
var (
	bucketFields = []string{"key", "value", "networks", "regex", "rate_limit", "descriptors", "share_threshold", "metadata", "quota_service"}
	bucketLimit  = []string{"unit", "unit_multiplier", "requests_per_unit", "name", "algorithm", "burst", "failure_mode"}
)

// checkQuotaService reports fields and limits that Envoy's rate_limit_quota filter cannot apply.
func (d *decoder) checkQuotaService(l *level) {
	const cannot = "quota_service has no %s: Envoy decides alone, and reports to Weir only every 5 s; remove one of them"
	at := l.given.At("quota_service")
	for _, f := range l.given.Fields {
		if !slices.Contains(bucketFields, f.Name) {
			d.ProblemIn(f.Name, strictyaml.At(f.Value), cannot, f.Name)
			return
		}
	}
	switch {
	case l.node.quota.Above != nil:
		d.ProblemIn("quota_service", at, "the limits of %s at %s apply below it, and quota_service cannot count them", l.node.quota.Above, l.node.quota.Above.Location())
		return
	case len(l.Limits) != 1:
		if !l.hasLimit || len(l.Limits) > 1 { // otherwise, the limit itself has a problem
			d.ProblemIn("quota_service", at, "quota_service divides one limit, and the rule has %d: write one rate_limit", len(l.Limits))
		}
		return
	}
	for _, f := range d.limitFields.given.Fields {
		if !slices.Contains(bucketLimit, f.Name) {
			d.ProblemIn("rate_limit", strictyaml.At(f.Value), cannot, f.Name)
			return
		}
	}
	limit := l.Limits[0]
	size := limit.Size()
	tokens, seconds := Refill(limit)
	switch {
	case limit.Algorithm != limiter.TokenBucket && (limit.Algorithm != limiter.FixedWindow && limit.Algorithm != limiter.SlidingWindow || limit.Period() != time.Second):
		d.ProblemIn("rate_limit", l.given.At("rate_limit"), "quota_service cannot count %s per %s, because Envoy has a token bucket: write algorithm: token_bucket, or a limit per second", limit.Algorithm, limit.Per())
	case size > math.MaxUint32/tokens || limit.RequestsPerUnit > math.MaxUint32 || seconds > math.MaxInt32:
		d.ProblemIn("rate_limit", l.given.At("rate_limit"), "quota_service cannot divide the burst %d of %s into whole tokens a second: use a smaller one, or one of which it is a multiple", size, limit.Rate())
	case seconds > tokens*60:
		d.WarnIn("rate_limit", l.given.At("rate_limit"), "a share that one Envoy returns reaches others only after %v, because a burst of %d takes as long to fill: use a smaller burst", time.Duration(seconds)*time.Second/time.Duration(tokens), size)
	}
	keys := l.node.keys()
	for i, key := range keys {
		if slices.Contains(keys[:i], key) {
			d.ProblemIn("key", strictyaml.At(l.given.Mapping), "a bucket ID has each key once, and %q leads here twice", key)
		}
	}
	d.tree.buckets = append(d.tree.buckets, l.node.quota)
}

// keys returns the keys that lead to n.
func (n *node) keys() (keys []string) {
	for _, m := range n.path()[1:] {
		keys = append(keys, m.entry.Key)
	}
	return keys
}

// orderBuckets stores the orders of keys that lead to rules with quota_service, and warns of rules that
// the same bucket ID reaches in different orders.
func (l *loader) orderBuckets() {
	l.tree.orders = map[string][][]string{}
	byKeys := map[string][]*Rule{}
	for _, r := range l.tree.buckets {
		keys := r.node.keys()
		name := unordered(r.node.path()[0].entry.Key, keys)
		if !slices.ContainsFunc(l.tree.orders[name], func(order []string) bool { return slices.Equal(order, keys) }) {
			l.tree.orders[name] = append(l.tree.orders[name], keys)
		}
		for _, first := range byKeys[name] {
			if first.node.mayMeet(r.node) {
				l.warn(r.node.location(), "a bucket ID has no order, so it may also lead to %s at %s, which comes first", first, first.Location())
				break
			}
		}
		byKeys[name] = append(byKeys[name], r)
	}
}

// mayMeet reports whether the entries of a bucket ID can lead to n in one order and to other in a second one.
// Both nodes must have the same keys. mayMeet assumes that two patterns of a key can match the same value.
func (n *node) mayMeet(other *node) bool {
	way, differ := n.path()[1:], false
	for i, m := range other.path()[1:] {
		differ = differ || way[i].entry.Key != m.entry.Key
		same := way[slices.IndexFunc(way, func(s *node) bool { return s.entry.Key == m.entry.Key })]
		if same.how == ByValue && m.how == ByValue && same.entry.Value != m.entry.Value {
			return false
		}
	}
	return differ
}
