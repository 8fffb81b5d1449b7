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
		wouldBe := res.WouldBeDenied()
		var o Outcome
		for i := range res.matches {
			m, d := &res.matches[i], &r.Descriptors[i]
			o = Outcome{Descriptor: d, Rule: m.rule, Exception: m.exception, Counted: m.entries}
			if m.first == m.end {
				if res.Denied {
					o.Kind = Withheld
				}
				if !yield(&o) {
					return
				}
			}
			hit := m.first
			for _, of := range res.levels[m.firstLevel:m.endLevel] {
				o.Rule, o.Counted, o.Patterns = of.rule, of.entries, of.patterns
				for ; hit < of.end; hit++ {
					o.Hit, o.Decision = &res.Hits[hit], &res.Decisions[hit]
					o.Kind = res.kind(o.Hit, o.Decision, wouldBe)
					if !yield(&o) {
						return
					}
				}
			}
		}
	}
}

// WouldBeDenied reports whether the request is admitted only because of ShadowMode.
func (res *Result) WouldBeDenied() bool {
	if !res.planner.ShadowMode {
		return false
	}
	var v limiter.Verdict
	for i := range res.Hits {
		v.Add(res.planner.Mode(res.Hits[i].Limit), res.Decisions[i].Over)
	}
	return v.Denied()
}

// kind returns what a hit meant. wouldBe is what WouldBeDenied returns.
func (res *Result) kind(h *limiter.Hit, d *limiter.Decision, wouldBe bool) OutcomeKind {
	switch {
	case !d.Over && res.Denied && !d.Charged:
		return Withheld
	case !d.Over:
		return Admitted
	case h.EffectiveMode() == limiter.Shadow:
		if h.Limit.Mode == limiter.Shadow || wouldBe {
			return Shadowed
		}
		return Admitted // a quota, of which others have room
	case res.Denied:
		return Denied
	default:
		return Admitted // likewise
	}
}
