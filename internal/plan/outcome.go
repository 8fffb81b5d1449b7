package plan

import (
	"iter"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Outcome is what one limit meant for a request, or that a descriptor had none.
type Outcome struct {
	Kind       OutcomeKind
	Descriptor *Descriptor
	Rule       *descriptors.Rule // of the limit; nil: none, an override that no rule judges, or an exception
	Exception  *Exception        // that applies to the descriptor; nil: none
	// Counted and Patterns spell the counter of the limit, see limiter.Keys.Append.
	Counted  []limiter.Entry
	Patterns []string
	// Hit and Decision are nil where no limit was counted.
	Hit      *limiter.Hit
	Decision *limiter.Decision
}

// OutcomeKind says whether a limit denied.
type OutcomeKind uint8

// The kinds of outcomes.
const (
	Admitted OutcomeKind = iota
	Denied               // the limit was over and the request denied
	Withheld             // the limit had room, but another one denied the request
	Shadowed             // the limit was over, and denied nothing because of a shadow mode
)

var outcomeKinds = [...]string{"admitted", "denied", "withheld", "shadow"}

// String returns the kind's name.
func (k OutcomeKind) String() string { return outcomeKinds[k] }

// AnyOver reports whether a hit was over its limit.
func (res *Result) AnyOver() bool {
	return slices.ContainsFunc(res.Decisions, func(d limiter.Decision) bool { return d.Over })
}

// Outcomes yields the outcome of each hit, and of each descriptor without hits, in the
// order of the descriptors. res has its statuses, and r is its request. What is yielded is
// overwritten by the next one.
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
	case !d.Over:
		return Admitted
	case h.EffectiveMode() == limiter.Shadow:
		if h.Limit.Mode == limiter.Shadow || res.WouldBeDenied {
			return Shadowed
		}
		return Admitted // a quota, of which others have room
	case res.Denied:
		return Denied
	default:
		return Admitted // likewise
	}
}
