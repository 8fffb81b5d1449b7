package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// Sum is one of the sums of a series, all in units of cost. docs/metrics.md says
// what each means.
type Sum int

// The sums of envoyproxy/ratelimit, and those of a limit by outcome.
const (
	TotalHits Sum = iota
	OverLimit
	NearLimit
	WithinLimit
	ShadowMode
	OverLimitWithLocalCache
	// From here on they are outcomes of weir_limit_hits_total, and no metrics of their own.
	admitted
	over
	withheld
	allSums

	outcomes = admitted // the first of them
)

// metrics has for each Sum its name, the end of the metric's or its outcome, and
// the metric.
var metrics = [allSums]struct {
	name string
	desc *prometheus.Desc
}{
	TotalHits:               {"total_hits", referenceDesc("total_hits", "Requested units.")},
	OverLimit:               {"over_limit", referenceDesc("over_limit", "Units over the limit.")},
	NearLimit:               {"near_limit", referenceDesc("near_limit", "Units above NEAR_LIMIT_RATIO of the limit but not over it.")},
	WithinLimit:             {"within_limit", referenceDesc("within_limit", "Admitted units.")},
	ShadowMode:              {"shadow_mode", referenceDesc("shadow_mode", "Units over the limit that were admitted because of shadow mode.")},
	OverLimitWithLocalCache: {"over_limit_with_local_cache", referenceDesc("over_limit_with_local_cache", "Units over the limit, denied without asking the store.")},
	admitted:                {"admitted", limitDesc},
	over:                    {"over", limitDesc},
	withheld:                {"withheld", limitDesc},
}

func referenceDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_service_rate_limit_"+name, help, []string{"domain", "key1", "key2"}, nil)
}

var limitDesc = prometheus.NewDesc("weir_limit_hits_total",
	"Units requested from a limit: admitted; over, they exceeded it; withheld, they fit it but another limit denied the request.",
	[]string{"domain", "rule", "limit", "outcome"}, nil)

// String returns the name that envoyproxy/ratelimit gives the sum.
func (s Sum) String() string { return metrics[s].name }

// Sums are those of envoyproxy/ratelimit, by Sum.
type Sums [outcomes]uint64

func (s *Sums) add(c *counters) {
	for sum := range s {
		s[sum] += c.sums[sum].Load()
	}
}

// counters count every Sum of a series. The other fields belong to Keep and expire.
type counters struct {
	sums   [allSums]atomic.Uint64
	seen   uint32 // low bits of the total when expire last looked
	looks  uint8  // of expire since the total last grew, at most keepLooks
	unused bool   // by all limits
	detail bool   // of values of requests
}

// add does not write to what other processors read, if there is nothing to add.
func (c *counters) add(s Sum, units int64) {
	if units > 0 {
		c.sums[s].Add(uint64(units))
	}
}

// idle reports whether no sum has grown for keepLooks calls.
func (c *counters) idle() bool {
	total := uint32(0)
	for s := range c.sums {
		total += uint32(c.sums[s].Load())
	}
	if total != c.seen {
		c.seen, c.looks = total, 0
	} else if c.looks < keepLooks {
		c.looks++
	}
	return c.looks == keepLooks
}

// Count counts the hits of a request that was decided. Refunds and peeks ask for no units.
func (u *Usage) Count(hits []limiter.Hit, decisions []limiter.Decision) {
	for i := range hits {
		if h := &hits[i]; !h.Refund && h.Cost > 0 {
			u.count(h, &decisions[i])
		}
	}
}

func (u *Usage) count(h *limiter.Hit, d *limiter.Decision) {
	limit := u.of(h.Limit.Series)
	series := limit
	if h.Labels != nil {
		if detail := u.detailOf(h.Limit.Series, h.Labels); detail != nil {
			series = detail
		}
	}
	// In 32 bits, like envoyproxy/ratelimit: 0.29 of 100 is 29, and not 28.
	p := split(h, d, int64(float32(h.Limit.Size())*u.nearRatio))
	series.add(TotalHits, cost(h))
	series.add(OverLimit, p.over)
	series.add(NearLimit, p.near)
	series.add(WithinLimit, p.within)
	if d.Over && d.Remembered {
		series.add(OverLimitWithLocalCache, p.over)
	}
	if h.Limit.Mode == limiter.Shadow { // of its rule; what SHADOW_MODE admits, package rls counts by request
		series.add(ShadowMode, p.over)
	}
	// As a whole, unless it was charged beyond its limit.
	switch {
	case p.within > 0:
		limit.add(admitted, p.within)
	case d.Charged || d.Over:
		beyond := min(p.over, h.CountedCost())
		limit.add(admitted, h.CountedCost()-beyond)
		limit.add(over, beyond)
	default:
		limit.add(withheld, h.CountedCost())
	}
}

// Outcome is how many units were asked of a limit, and how many of them were over.
type Outcome struct{ Asked, Over uint64 }

// Outcomes returns those of all limits that were hit.
func (u *Usage) Outcomes() map[limiter.Series]Outcome {
	u.mu.RLock()
	all, outcomes := u.all, make(map[limiter.Series]Outcome, len(u.all))
	u.mu.RUnlock()
	for series, c := range each(&u.mu, all) {
		if asked := c.sums[admitted].Load() + c.sums[over].Load() + c.sums[withheld].Load(); asked > 0 {
			outcomes[series] = Outcome{asked, c.sums[over].Load()}
		}
	}
	return outcomes
}

// cost is Hit.Cost, or a number larger than any limit of which some can be summed.
func cost(h *limiter.Hit) int64 { return int64(min(h.Cost, limiter.MaxExact/2)) }

// parts says how the units of a hit lie to its limit.
type parts struct{ over, near, within int64 }

// split returns which units of a hit are over the limit, near it, and within it.
//
// A hit that does not fit and was not charged is over as a whole: the counter has
// not moved, so that its part up to the limit would be counted again with every
// further one. Of one that was charged, the units up to the limit are not over, as
// in envoyproxy/ratelimit, and those of them above nearFrom, in units of the limit, are near.
// If another limit denied the request, these units count as none of the three.
func split(h *limiter.Hit, d *limiter.Decision, nearFrom int64) parts {
	cost, size := cost(h), int64(h.Limit.Size())
	above := func(line int64) int64 { return min(max(d.Used-line, 0), cost) }
	switch {
	case d.Over && (!d.Charged || d.Used <= size): // in the latter case other hits of the request had taken it
		return parts{over: cost}
	case d.Over:
		return parts{over: above(size), near: above(nearFrom) - above(size)}
	case !d.Charged:
		return parts{}
	default:
		return parts{near: above(nearFrom), within: cost}
	}
}
