package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// Limit is one of a rule's limits. Of an unlimited one there is nothing to tell
// but its name and what it replaces.
type Limit struct {
	// Above is the rule whose limit this is, and Place where that is, if it is another
	// one, above that of the answer.
	Above           string   `json:"above,omitempty"`
	Place           string   `json:"place,omitempty"`
	Shared          []string `json:"-"` // as in Answer, of this rule
	Name            string   `json:"name,omitempty"`
	Unlimited       bool     `json:"unlimited,omitempty"`
	RequestsPerUnit *uint64  `json:"requests_per_unit,omitempty"`
	Period          string   `json:"period,omitempty"` // such as minute, or 5 minutes
	PeriodSeconds   int64    `json:"period_seconds,omitempty"`
	Rate            string   `json:"-"` // such as 10 per 5 minutes
	Algorithm       string   `json:"algorithm,omitempty"`
	TimeZone        string   `json:"time_zone,omitempty"` // of a calendar
	Burst           *uint64  `json:"burst,omitempty"`     // what fits into a token bucket
	Hold            string   `json:"hold,omitempty"`      // key of the entry that names a hold
	Charge          string   `json:"charge,omitempty"`
	DenyFor         string   `json:"deny_for,omitempty"` // such as 10m
	Mode            string   `json:"mode,omitempty"`
	DecidedAs       string   `json:"decided_as,omitempty"` // the mode that a switch of the server makes of it
	Switch          string   `json:"switch,omitempty"`     // which one
	FailureMode     string   `json:"failure_mode,omitempty"`
	Replaces        []string `json:"replaces,omitempty"`
	// ReplacedBy names the limits of the answer that replace this one.
	ReplacedBy []string `json:"replaced_by,omitempty"`

	// A limit that is unlimited or replaced is not counted, so nothing of this. Key
	// and Slot are there if the counter is in Redis, and in a cluster.
	Key      string    `json:"key,omitempty"` // as redis-cli takes it
	Slot     *int      `json:"slot,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
}

// Decision is what would become of the hits on a fresh counter. If they do not
// fit that, they never do. ResetAfter is the time until nothing of them counts any
// more, if they come at the start of a window; later in one that is aligned to the
// epoch, it is shorter. Of a calendar it is that of a usual window.
type Decision struct {
	Fits       bool    `json:"fits"`
	Charged    bool    `json:"charged"`
	Remaining  int64   `json:"remaining"`
	ResetAfter float64 `json:"reset_after_seconds"`
}

// switches are those of the server by the mode that they make of others.
var switches = map[limiter.Mode]string{limiter.Shadow: "SHADOW_MODE", limiter.Quota: "QUOTA_MODE"}

// addLimits adds the limits of the rule and of those above that hold below, and
// decides the hits of p on fresh counters at the start of a window.
func (a *Answer) addLimits(q *Question, p *plan.Result, rule *descriptors.Rule) {
	states := make([]*limiter.State, len(p.Hits))
	for i := range states {
		states[i] = new(limiter.State)
	}
	a.Denied = limiter.Decide(p.Hits, states, nil, 0, p.Decisions)
	next := 0 // hit: the limits that are counted have one each, in order
	for r := rule; r != nil; r = r.Above {
		for _, l := range r.Limits {
			shown := newLimit(l, q)
			shown.Shared = r.Shared()
			if r != rule {
				shown.Above, shown.Place = r.String(), r.Place()
			}
			if next < len(p.Hits) && p.Hits[next].Limit == l {
				shown.addCounter(q, p.Hits[next].Key, &p.Decisions[next])
				next++
			}
			a.Limits = append(a.Limits, shown)
		}
	}
	for i := range a.Limits {
		l := &a.Limits[i]
		for j, other := range a.Limits { // also one that is replaced itself
			if !l.Unlimited && l.Decision == nil && slices.Contains(other.Replaces, l.Name) {
				l.ReplacedBy = append(l.ReplacedBy, cmp.Or(other.Name, fmt.Sprintf("limit %d", j+1)))
			}
		}
	}
}

// newLimit returns what a limit is.
func newLimit(l *limiter.Limit, q *Question) Limit {
	shown := Limit{Name: l.Name, Unlimited: l.Unlimited, Replaces: l.Replaces}
	if l.Unlimited {
		return shown
	}
	shown.RequestsPerUnit, shown.Rate = &l.RequestsPerUnit, l.Rate()
	shown.Period, shown.PeriodSeconds = l.Per(), int64(l.Period()/time.Second)
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

// addCounter says where the limit is counted, and what was decided there.
func (l *Limit) addCounter(q *Question, key []byte, d *limiter.Decision) {
	if q.Redis {
		l.Key = limiter.KeyText(key)
	}
	if q.Cluster {
		l.Slot = new(limiter.Slot(key))
	}
	l.Decision = &Decision{!d.Over, d.Charged, d.Remaining, d.ResetAfter.Seconds()}
	if l.TimeZone != "" {
		l.Decision.ResetAfter = float64(l.PeriodSeconds)
	}
}
