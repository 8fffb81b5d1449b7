package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// Limit describes a limit of a rule. If the limit is unlimited, only its name and Replaces are
// set.
type Limit struct {
	// Above and Location are the rule that has the limit and the location of that rule, if it is
	// above the answer's rule. Otherwise both are empty.
	Above           string   `json:"above,omitempty"`
	Location        string   `json:"location,omitempty"`
	Shared          []string `json:"-"` // like Answer.Shared, for the rule that has the limit
	Name            string   `json:"name,omitempty"`
	Unlimited       bool     `json:"unlimited,omitempty"`
	RequestsPerUnit *uint64  `json:"requests_per_unit,omitempty"`
	Period          string   `json:"period,omitempty"` // such as minute, or 5 minutes
	PeriodSeconds   int64    `json:"period_seconds,omitempty"`
	Rate            string   `json:"-"`                  // such as 10 per 5 minutes
	Own             string   `json:"own_rate,omitempty"` // rate of the rule, if another amount is assigned
	Algorithm       string   `json:"algorithm,omitempty"`
	TimeZone        string   `json:"time_zone,omitempty"` // only with the calendar algorithm
	Burst           *uint64  `json:"burst,omitempty"`     // size of a token bucket
	Hold            string   `json:"hold,omitempty"`      // key of the entry that names a hold
	Settle          string   `json:"settle,omitempty"`    // key of the entry that settles a reservation
	Charge          string   `json:"charge,omitempty"`
	DenyFor         string   `json:"deny_for,omitempty"` // such as 10m
	Mode            string   `json:"mode,omitempty"`
	QuotaGroup      string   `json:"quota_group,omitempty"` // entries of the descriptor that name the limit's group of quotas
	DecidedAs       string   `json:"decided_as,omitempty"`  // mode that applies instead of Mode because of Switch
	Switch          string   `json:"switch,omitempty"`      // setting of the server that overrides the mode
	FailureMode     string   `json:"failure_mode,omitempty"`
	Notify          []int    `json:"notify,omitempty"` // percentages of the amount
	Replaces        []string `json:"replaces,omitempty"`
	// ReplacedBy has the names of the limits in the answer that replace this limit.
	ReplacedBy []string `json:"replaced_by,omitempty"`

	// The fields below are unset if the limit is unlimited or replaced, because it is not
	// counted then. Key is set only if counters are in Redis, and Slot only in a cluster.
	Key      string    `json:"key,omitempty"` // quoted for redis-cli
	Slot     *int      `json:"slot,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
}

// Decision is the decision on a hit on an unused counter. A hit that does not fit there never
// fits. ResetAfter is the time until a hit at the start of a window no longer counts; later in a
// window aligned to the epoch, the time is shorter. With the calendar algorithm, ResetAfter is
// the nominal length of a window.
type Decision struct {
	Fits       bool    `json:"fits"`
	Charged    bool    `json:"charged"`
	Remaining  int64   `json:"remaining"`
	ResetAfter float64 `json:"reset_after_seconds"`
}

// switches has the settings of the server that replace the modes of limits, by the new mode.
var switches = map[limiter.Mode]string{limiter.Shadow: "SHADOW_MODE", limiter.Quota: "QUOTA_MODE"}

// addLimits adds the limits of rule and of the rules above it that also apply below. It decides
// the hits of p on unused counters at the start of a window.
func (a *Answer) addLimits(q *Question, p *plan.Plan, rule *descriptors.Rule) {
	states := make([]*limiter.State, len(p.Hits))
	for i := range states {
		states[i] = new(limiter.State)
	}
	decisions := make([]limiter.Decision, len(p.Hits))
	a.Denied = limiter.Decide(p.Hits, states, nil, 0, decisions)
	next := 0 // index of the next hit; each counted limit has one hit, in order
	for r := rule; r != nil; r = r.Above {
		for _, l := range r.Limits {
			counts := q.Assigned.Limit(r, q.Domain, q.counted(r), l)
			shown := newLimit(counts, q)
			if counts != l {
				shown.Own = l.Rate()
			}
			shown.Shared = r.Shared()
			if r != rule {
				shown.Above, shown.Location = r.String(), r.Location()
			}
			if next < len(p.Hits) && plan.IsHitOn(&p.Hits[next], l) {
				shown.addCounter(q, p.Hits[next].Key, &decisions[next])
				if p.Hits[next].Group > 0 {
					shown.QuotaGroup = FormatDescriptor(slices.DeleteFunc(slices.Clone(q.Descriptor), func(e limiter.Entry) bool {
						return !slices.Contains(q.GroupKeys, e.Key)
					}))
				}
				next++
			}
			a.Limits = append(a.Limits, shown)
		}
	}
	for i := range a.Limits {
		l := &a.Limits[i]
		for j, other := range a.Limits { // a replaced limit may also replace others
			if !l.Unlimited && l.Decision == nil && slices.Contains(other.Replaces, l.Name) {
				l.ReplacedBy = append(l.ReplacedBy, cmp.Or(other.Name, fmt.Sprintf("limit %d", j+1)))
			}
		}
	}
}

// newLimit describes l without its counter.
func newLimit(l *limiter.Limit, q *Question) Limit {
	shown := Limit{Name: l.Name, Unlimited: l.Unlimited, Replaces: l.Replaces}
	if l.Unlimited {
		return shown
	}
	shown.RequestsPerUnit, shown.Rate = &l.RequestsPerUnit, l.Rate()
	shown.Period, shown.PeriodSeconds = l.Per(), int64(l.Period()/time.Second)
	shown.Notify, shown.Settle = l.Notify, l.Settle
	shown.Algorithm, shown.Mode, shown.Hold = l.Algorithm.String(), descriptors.ModeWord(l.Mode), l.HoldKey()
	shown.FailureMode = cmp.Or(l.FailureMode, q.Failure, limiter.FailureError).String()
	if l.Algorithm.Takes(limiter.ChargeOption) {
		shown.Charge = descriptors.ChargeWord(cmp.Or(l.Charge, q.Charge, limiter.Auto))
	}
	if l.Algorithm == limiter.ByCalendar {
		shown.TimeZone = cmp.Or(l.TimeZone, "UTC")
	}
	if l.DenyFor > 0 {
		shown.DenyFor = descriptors.SpellDuration(l.DenyFor)
	}
	if l.Algorithm.Takes(limiter.BurstOption) {
		shown.Burst = new(l.Size())
	}
	if mode := q.DecidingMode(l); mode != l.Mode {
		shown.DecidedAs, shown.Switch = descriptors.ModeWord(mode), switches[mode]
	}
	return shown
}

func (l *Limit) addCounter(q *Question, key []byte, d *limiter.Decision) {
	if q.Redis {
		l.Key = plaintext.RedisKey(key)
	}
	if q.Cluster {
		l.Slot = new(limiter.Slot(key))
	}
	l.Decision = &Decision{!d.Over, d.Charged, d.Remaining, d.ResetAfter.Seconds()}
	if l.TimeZone != "" {
		l.Decision.ResetAfter = float64(l.PeriodSeconds)
	}
}
