package plan

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync/atomic"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Options are the settings of the server on which answers depend.
type Options struct {
	Keys           limiter.Keys
	Charge         limiter.Charge              // of limits that do not say it themselves; the zero value means Auto
	CalendarMonths bool                        // count limits of months that requests bring along by the calendar of UTC
	ShadowMode     bool                        // deny nothing, but say in the statuses what would be
	QuotaMode      bool                        // take every enforced limit for a quota
	MaxDescriptors int                         // of one request, which is refused if it has more; 0 means 100
	Exceptions     *atomic.Pointer[Exceptions] // those in force; nil: there are never any
}

// SwitchedOn says which switches are on that change the answer to every request: left on by
// mistake, they would go unnoticed.
func SwitchedOn(shadowMode, quotaMode bool) (notes []string) {
	if shadowMode {
		notes = append(notes, "SHADOW_MODE is on: no request is denied")
	}
	if quotaMode {
		notes = append(notes, "QUOTA_MODE is on: a request is denied only if all its limits are exceeded")
	}
	return notes
}

// Mode returns the mode of l that statuses are about. With QuotaMode an enforced limit
// is a quota, unless it is of an exception.
func (o *Options) Mode(l *limiter.Limit) limiter.Mode {
	if o.QuotaMode && l.Mode == limiter.Enforced && !l.Veto {
		return limiter.Quota
	}
	return l.Mode
}

// DecidingMode returns the mode in which hits on l are decided. With ShadowMode it is
// Shadow, and statuses are still about Mode.
func (o *Options) DecidingMode(l *limiter.Limit) limiter.Mode {
	if o.ShadowMode {
		return limiter.Shadow
	}
	return o.Mode(l)
}

// Planner prepares Results, several at a time.
type Planner struct {
	Options   // not to be changed
	overrides made[overrideOf]
	excepted  made[exceptedOf]
}

// New returns a Planner.
func New(opts Options) *Planner {
	opts.MaxDescriptors = cmp.Or(opts.MaxDescriptors, 100)
	opts.Exceptions = cmp.Or(opts.Exceptions, new(atomic.Pointer[Exceptions]))
	return &Planner{Options: opts}
}

// Result is what is decided for one request: its hits and, when they are decided, its
// statuses. The zero value is ready for Prepare, and so is one that was used
// before, whose memory is used again.
type Result struct {
	// Hits is what a store must decide. Without hits it need not be asked.
	Hits []limiter.Hit
	// Decisions is for what the store decides, as long as Hits.
	Decisions []limiter.Decision
	// Tree has the rules that the request was decided by.
	Tree *descriptors.Tree
	// Unmatched is how many descriptors have neither a rule nor an override.
	Unmatched int
	// Invalid says which value could not be decided, nil if there was none. Clients choose
	// values, and Envoy lets a request pass after an error. So an invalid value counts as an
	// exceeded limit of its descriptor, and all other limits count the request as usual.
	Invalid error
	// Denied and Statuses, one for each descriptor in order, are there after SetStatuses.
	Denied   bool
	Statuses []Status

	planner   *Planner
	matches   []match          // one for each descriptor
	levels    []level          // of all matches, one after the other
	replacing []*limiter.Limit // limits of the levels that replace others, each once
	keys      []byte           // of hits, one after the other
	holds     []byte           // names of holds, likewise
	entries   []limiter.Entry  // of matches, without the one that names a hold
	labels    []byte           // likewise, of those with values of the request
	work      descriptors.Work // left to find rules
}

// match is what applies to one descriptor of a request.
type match struct {
	rule      *descriptors.Rule // nil: none, or an override that no rule judges
	entries   []limiter.Entry   // of the descriptor, without the one that names its hold
	hold      []byte            // name of its hold, nil if it has none
	exception *Exception
	unlimited bool // one of the limits admits everything, or an exception does
	inFlight  bool // some of the limits count requests in flight

	firstLevel, endLevel int // of Result.levels: what the rule or the override says, then what applies from above
	first, end           int // of Result.Hits: those of the limits that are counted
}

// level is what one rule, or what stands in its place, has for a descriptor.
type level struct {
	rule   *descriptors.Rule // nil of an override that no rule judges, and of an exception
	limits []*limiter.Limit  // replaced ones included
	// What spells their counters, as limiter.Keys.Append takes it.
	entries  []limiter.Entry
	patterns []string

	end int // of Result.Hits: where those of this level end
}

// Prepare fills res with the hits that the rules of tree make of r. The error
// says what is wrong with r, which must not change until res has its statuses.
func (pl *Planner) Prepare(res *Result, tree *descriptors.Tree, r *Request) error {
	res.Reset()
	res.planner, res.Tree, res.work = pl, tree, descriptors.MaxWork
	if err := r.check(pl.MaxDescriptors); err != nil {
		return err
	}
	inForce := pl.Exceptions.Load()
	for i := range r.Descriptors {
		if err := res.addMatch(r.Domain, &r.Descriptors[i], inForce); err != nil && res.Invalid == nil {
			res.Invalid = fmt.Errorf("descriptor %d: %w", i, err)
		}
	}
	for i := range res.matches { // when it is known what is replaced
		res.addHits(r, i)
	}
	res.Decisions = slices.Grow(res.Decisions, len(res.Hits))[:len(res.Hits)]
	return nil
}

// Reset forgets the request, and with it every reference to its bytes and to the
// rules, but keeps the memory of the slices.
func (res *Result) Reset() {
	clear(res.matches)
	clear(res.levels)
	clear(res.replacing)
	clear(res.Hits)
	clear(res.Statuses)
	clear(res.entries)
	*res = Result{
		Hits: res.Hits[:0], Decisions: res.Decisions[:0], Statuses: res.Statuses[:0],
		matches: res.matches[:0], levels: res.levels[:0], replacing: res.replacing[:0],
		keys: res.keys[:0], holds: res.holds[:0], entries: res.entries[:0], labels: res.labels[:0],
	}
}

// addMatch finds what applies to a descriptor: the limit that it brings along, then the limits of
// its rule and of those above, or an exception in the place of all. The error is about an
// invalid value, see Result.Invalid.
func (res *Result) addMatch(domain string, d *Descriptor, inForce *Exceptions) (invalid error) {
	m := match{firstLevel: len(res.levels)}
	var (
		rule      *descriptors.Rule // that d leads to
		holdEntry int               // which entry names a hold of it, -1: none does
		brought   level
		from      *descriptors.Rule // whose limits apply, and those of the rules above it
		// deniedBy is not empty if a value of d cannot be decided, and then invalid says why. A
		// limit that denies everything stands in place of the sent limit, beside the limits from
		// above. deniedBy is its rule in metrics: a fixed word, nothing of the request.
		deniedBy string
	)
	rule, holdEntry, m.entries = res.Tree.MatchHold(domain, d.Entries, &res.work)
	if d.HasOverride {
		if brought, from, invalid = res.planner.override(res.Tree.DomainLabel(domain), d, rule, holdEntry); invalid != nil {
			invalid, deniedBy = fmt.Errorf("limit: %w", invalid), "override"
		}
		m.rule = brought.rule
	} else {
		m.rule, from = rule, rule
	}
	if deniedBy != "" {
		brought = level{limits: res.planner.denial(exceptedOf{domain: res.Tree.DomainLabel(domain), by: deniedBy})}
	}
	if m.rule == nil && brought.limits == nil {
		res.Unmatched++
	}

	if holdEntry >= 0 {
		res.nameHold(&m, holdEntry)
	}
	m.inFlight = from != nil && from.Hold != "" || len(brought.limits) > 0 && brought.limits[0].HoldKey() != ""
	if m.inFlight && m.hold == nil {
		invalid = fmt.Errorf("rule %[2]s needs an entry %[1]q with a value that names the request in flight", rule.Hold, rule)
	}
	if d.HasOverride || deniedBy != "" {
		brought.entries = m.entries
		res.addLevel(brought)
	}
	for ; from != nil; from = from.Above {
		res.addLevel(level{rule: from, limits: from.Limits, entries: from.Counted(m.entries), patterns: from.Patterns})
	}

	// An exception does not stop a refund. Otherwise units taken before it could not be
	// released.
	if e := inForce.Find(domain, m.entries); e != nil && (!d.Refund || e.Effect == Amount) {
		m.exception = e
	}
	switch {
	case m.exception.is(Allow):
		m.unlimited, res.levels, invalid = true, res.levels[:m.firstLevel], nil
	case m.exception.is(Deny):
		denies := level{limits: res.planner.denial(exceptedOf{domain: res.Tree.DomainLabel(domain), by: "exception"}), entries: m.exception.Entries}
		res.levels, invalid = append(res.levels[:m.firstLevel], denies), nil
	}
	m.endLevel = len(res.levels)
	res.matches = append(res.matches, m)
	return invalid
}

// nameHold sets the name of the hold of m from the entry at holdEntry, unless its value is
// empty, and takes that entry out of m's entries, so that it is in no key.
func (res *Result) nameHold(m *match, holdEntry int) {
	if value := m.entries[holdEntry].Value; value != "" {
		start := len(res.holds)
		res.holds = append(res.holds, value...) // only to hash it without allocating
		digest := sha256.Sum256(res.holds[start:])
		res.holds = append(res.holds[:start], digest[:limiter.HoldSize]...)
		m.hold = res.holds[start:len(res.holds):len(res.holds)]
	}
	first := len(res.entries)
	res.entries = append(append(res.entries, m.entries[:holdEntry]...), m.entries[holdEntry+1:]...)
	m.entries = res.entries[first:len(res.entries):len(res.entries)]
}

// addLevel adds a level and collects its limits that replace others.
func (res *Result) addLevel(of level) {
	res.levels = append(res.levels, of)
	for _, l := range of.limits {
		if len(l.Replaces) > 0 && !slices.Contains(res.replacing, l) {
			res.replacing = append(res.replacing, l)
		}
	}
}

// isReplaced reports whether a limit of the request replaces l, even if that limit is itself replaced.
func (res *Result) isReplaced(l *limiter.Limit) bool {
	return l.Name != "" && !l.Veto && slices.ContainsFunc(res.replacing, func(by *limiter.Limit) bool {
		_, found := slices.BinarySearch(by.Replaces, l.Name)
		return found
	})
}

// addHits makes a hit of every limit of a match that is counted: neither unlimited, which
// cannot be replaced, nor replaced.
func (res *Result) addHits(r *Request, i int) {
	m, d := &res.matches[i], &r.Descriptors[i]
	m.first = len(res.Hits)
	for j := m.firstLevel; j < m.endLevel; j++ {
		of := &res.levels[j]
		var labels, begin []byte // of the hits, and of their keys
		if of.rule != nil {
			start := len(res.labels)
			if res.labels = of.rule.AppendLabels(res.labels, m.entries); len(res.labels) > start { // not only the rules say it
				labels = res.labels[start:len(res.labels):len(res.labels)]
			}
		}
		for _, l := range of.limits {
			holds := l.HoldKey() != ""
			switch {
			case l.Unlimited:
				m.unlimited = true
				continue
			case d.Refund && (l.Veto || m.inFlight && (!holds || m.hold == nil)):
				continue // A request that ends releases its hold, but its start still counts. A denial took nothing.
			case res.isReplaced(l):
				continue
			case holds && m.hold == nil:
				l = res.planner.denial(exceptedOf{limit: l})[0]
			}
			at := len(res.keys)
			if begin == nil {
				res.keys = res.planner.Keys.Append(res.keys, r.Domain, of.entries, of.patterns)
				begin = res.keys[at:]
			} else {
				res.keys = append(res.keys, begin...)
			}
			res.keys = l.AppendKind(res.keys)
			if m.exception.is(Amount) {
				l = res.planner.multiple(l, m.exception.Factor) // on the same counter
			}
			res.Hits = append(res.Hits, limiter.Hit{
				Limit:  l,
				Key:    res.keys[at:len(res.keys):len(res.keys)],
				Cost:   r.Cost(d),
				Refund: d.Refund,
				Always: d.chargedAlways(cmp.Or(l.Charge, res.planner.Charge, limiter.Auto)),
				Mode:   res.planner.DecidingMode(l),
				Labels: labels,
			})
			if holds {
				h := &res.Hits[len(res.Hits)-1]
				h.Hold, h.Cost, h.Always = m.hold, min(h.Cost, 1), false
			}
		}
		of.end = len(res.Hits)
	}
	m.end = len(res.Hits)
}
