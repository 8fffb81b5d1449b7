package plan

import (
	"bytes"
	"iter"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Outcome describes how one limit contributed to a decision. A descriptor without limits also has
// an Outcome.
type Outcome struct {
	Kind       OutcomeKind
	Descriptor *Descriptor
	Rule       *descriptors.Rule // rule of the limit, or nil if there is none, an exception denies, or an override replaces a rule without the field override
	Exception  *Exception        // exception that applies to the descriptor, or nil
	// Counted and Patterns identify the limit's counter, see limiter.Keys.Append.
	Counted  []limiter.Entry
	Patterns []string
	// Hit and Decision are nil if no limit was counted.
	Hit      *limiter.Hit
	Decision *limiter.Decision
}

// OutcomeKind classifies an Outcome.
type OutcomeKind uint8

// The kinds of outcomes.
const (
	Admitted OutcomeKind = iota
	Denied               // the limit was exceeded and the request denied
	Withheld             // the limit had room, but another limit denied the request
	Shadowed             // the limit was exceeded, but denied nothing because of a shadow mode
)

var outcomeKinds = [...]string{"admitted", "denied", "withheld", "shadow"}

func (k OutcomeKind) String() string { return outcomeKinds[k] }

// IsHitOn reports whether h is a hit on the counter of l, a limit of a rule. The amount of h's limit
// may differ from l's.
func IsHitOn(h *limiter.Hit, l *limiter.Limit) bool {
	return h.Limit.Series == l.Series && bytes.HasSuffix(h.Key, l.AppendKind(nil))
}

// AnyOver reports whether a hit exceeded its limit.
func (res *Result) AnyOver() bool {
	return slices.ContainsFunc(res.Decisions, func(d limiter.Decision) bool { return d.Over })
}

// Outcomes yields an outcome for each hit and for each descriptor without hits, in the order of
// the descriptors. r must be the request of res. Each outcome is valid until the next one is
// yielded.
func (res *Result) Outcomes(r *Request) iter.Seq[*Outcome] {
	return func(yield func(*Outcome) bool) {
		var o Outcome
		for i := range res.Plan.matches {
			m, d := &res.Plan.matches[i], &r.Descriptors[i]
			o = Outcome{Descriptor: d, Rule: m.reported, Exception: m.exception, Counted: m.entries}
			if m.firstHit == m.endHit {
				if res.Denied {
					o.Kind = Withheld
				}
				if !yield(&o) {
					return
				}
			}
			hit := m.firstHit
			for _, level := range res.Plan.levels[m.firstLevel:m.endLevel] {
				o.Rule, o.Counted, o.Patterns = level.rule, level.entries, level.patterns
				for ; hit < level.endHit; hit++ {
					o.Hit, o.Decision = &res.Plan.Hits[hit], &res.Decisions[hit]
					o.Kind = res.kind(o.Hit, o.Decision)
					if !yield(&o) {
						return
					}
				}
			}
		}
	}
}

// kind classifies a hit.
func (res *Result) kind(h *limiter.Hit, d *limiter.Decision) OutcomeKind {
	switch {
	case !d.Over && res.Denied && !d.Charged:
		return Withheld
	case d.Over && h.EffectiveMode() != limiter.Shadow && res.Denied:
		return Denied
	case d.Over && h.EffectiveMode() == limiter.Shadow && (h.Limit.Mode == limiter.Shadow || res.WouldBeDenied):
		return Shadowed
	}
	return Admitted // the limit has room, or is a quota and another quota has room
}
