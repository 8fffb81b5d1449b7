package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// Sum is one of the sums of a series, all in units of cost. docs/metrics.md explains them.
type Sum int

// The sums of envoyproxy/ratelimit, and the sums of a limit by outcome.
const (
	TotalHits Sum = iota
	OverLimit
	NearLimit
	WithinLimit
	ShadowMode
	OverLimitWithLocalCache
	// The rest are outcomes of the metric weir_limit_hits_total.
	admitted
	over
	withheld
	allSums

	outcomes = admitted // the first outcome
)

// metrics has the metric of each Sum. name is the end of the metric's name, or the outcome.
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

// String returns the sum's name in envoyproxy/ratelimit, or its outcome.
func (s Sum) String() string { return metrics[s].name }

// Sums are the sums of envoyproxy/ratelimit, indexed by Sum.
type Sums [outcomes]uint64

func (s *Sums) add(c *counters) {
	for sum := range s {
		s[sum] += c.sums[sum].Load()
	}
}

// counters has every Sum of a series. The other fields are for expire.
type counters struct {
	sums   [allSums]atomic.Uint64
	seen   uint32 // low bits of the total at the last check by expire
	checks uint8  // checks since the total last grew, at most keepChecks
	unused bool   // no limit in use has the series
	detail bool   // the series comes from values of requests
}

// add adds units to a sum. If units is 0, it does not write to memory that other CPUs read.
func (c *counters) add(s Sum, units int64) {
	if units > 0 {
		c.sums[s].Add(uint64(units))
	}
}

// idle reports whether no sum has grown for keepChecks calls.
func (c *counters) idle() bool {
	total := uint32(0)
	for s := range c.sums {
		total += uint32(c.sums[s].Load())
	}
	if total != c.seen {
		c.seen, c.checks = total, 0
	} else if c.checks < keepChecks {
		c.checks++
	}
	return c.checks == keepChecks
}

// Count counts the hits of a decided request. It ignores peeks and refunds, but counts refunds of
// unknown reservations.
func (u *Usage) Count(hits []limiter.Hit, decisions []limiter.Decision) {
	for i := range hits {
		switch h := &hits[i]; {
		case h.Refund && h.Reservation != nil && decisions[i].Already:
			u.unknown.Inc()
		case !h.Refund && h.Cost > 0:
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
	// With 32-bit floats, as in envoyproxy/ratelimit, 0.29 times 100 is truncated to 29. With
	// 64-bit floats, it would be 28.
	exceeding, near, within := split(h, d, int64(float32(h.Limit.Size())*u.nearRatio))
	series.add(TotalHits, cost(h))
	series.add(OverLimit, exceeding)
	series.add(NearLimit, near)
	series.add(WithinLimit, within)
	if d.Over && d.Remembered {
		series.add(OverLimitWithLocalCache, exceeding)
	}
	if h.Limit.Mode == limiter.Shadow { // set by the rule; package rls counts requests that SHADOW_MODE admits
		series.add(ShadowMode, exceeding)
	}
	// All units have one outcome, unless the hit was charged beyond its limit.
	switch {
	case within > 0:
		limit.add(admitted, within)
	case d.Charged || d.Over:
		beyond := min(exceeding, h.CountedCost())
		limit.add(admitted, h.CountedCost()-beyond)
		limit.add(over, beyond)
	default:
		limit.add(withheld, h.CountedCost())
	}
}

// Outcome is the number of units requested from a limit, and the number that exceeded it.
type Outcome struct{ Asked, Over uint64 }

// Outcomes returns the outcomes of all limits with hits.
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

// cost returns h.Cost, bounded by a number that is larger than any limit and small enough for sums.
func cost(h *limiter.Hit) int64 { return int64(min(h.Cost, limiter.MaxExact/2)) }

// split returns the units of a hit that exceed its limit, are near it, and are within it. Units above
// nearFrom are near the limit.
//
// All units of a denied hit that was not charged are over: the counter has not changed, so the
// units that fit would be counted again with each further hit. If a denied hit was charged, the
// units up to the limit are not over, as in envoyproxy/ratelimit. A hit that fits, but whose
// request another limit denied, counts as none of the three.
func split(h *limiter.Hit, d *limiter.Decision, nearFrom int64) (exceeding, near, within int64) {
	cost, size := cost(h), int64(h.Limit.Size())
	above := func(line int64) int64 { return min(max(d.Used-line, 0), cost) }
	switch {
	case d.Over && (!d.Charged || d.Used <= size): // in the second case, other hits of the request used up the limit
		return cost, 0, 0
	case d.Over:
		return above(size), above(nearFrom) - above(size), 0
	case !d.Charged:
		return 0, 0, 0
	default:
		return 0, above(nearFrom), cost
	}
}
