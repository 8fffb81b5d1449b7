package plan

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync/atomic"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Options are the settings of the server that affect answers.
type Options struct {
	Keys           limiter.Keys
	Charge         limiter.Charge              // for limits without a charge of their own; the zero value means Auto
	CalendarMonths bool                        // count overrides of months by the calendar, in UTC
	ShadowMode     bool                        // deny nothing, but show exceeded limits in statuses
	QuotaMode      bool                        // treat every enforced limit as a quota
	GroupKeys      []string                    // keys of the entries whose values name the descriptor's group of quotas
	MaxDescriptors int                         // maximum number of descriptors in a request, at most limiter.MaxGroup with GroupKeys; 0 means 100
	Exceptions     *atomic.Pointer[Exceptions] // exceptions in force, or nil if exceptions are disabled
	Assigned       *SharedSet                  // amounts assigned to limits, or nil if none are ever assigned
}

// SwitchedOn returns a note for each of the two settings that is on. Each changes the answers to
// all requests, and an operator who left it on by mistake might not notice otherwise.
func SwitchedOn(shadowMode, quotaMode bool) (notes []string) {
	if shadowMode {
		notes = append(notes, "SHADOW_MODE is on: no request is denied")
	}
	if quotaMode {
		notes = append(notes, "QUOTA_MODE is on: a request is denied only if all its limits are exceeded")
	}
	return notes
}

// Mode returns the mode of l in statuses. With QuotaMode, an enforced limit is a quota, unless
// it denies for an exception or an invalid value.
func (o *Options) Mode(l *limiter.Limit) limiter.Mode {
	if o.QuotaMode && l.Mode == limiter.Enforced && !l.Veto {
		return limiter.Quota
	}
	return l.Mode
}

// DecidingMode returns the mode in which hits on l are decided. With ShadowMode it is Shadow,
// although statuses still show Mode.
func (o *Options) DecidingMode(l *limiter.Limit) limiter.Mode {
	if o.ShadowMode {
		return limiter.Shadow
	}
	return o.Mode(l)
}

// Planner makes Plans. It is safe for use by several goroutines.
type Planner struct {
	Options   // must not be changed
	overrides cache[overrideKey]
	excepted  cache[exceptedKey]
}

// New returns a Planner.
func New(opts Options) *Planner {
	opts.MaxDescriptors = cmp.Or(opts.MaxDescriptors, 100)
	opts.Exceptions = cmp.Or(opts.Exceptions, new(atomic.Pointer[Exceptions]))
	return &Planner{Options: opts}
}

// Plan has the hits of a request on limits. Prepare accepts the zero value, and also a used
// Plan, whose memory it reuses.
type Plan struct {
	// Hits must be decided by a store. If there are none, the store need not be asked.
	Hits []limiter.Hit
	// Tree contains the rules of the hits.
	Tree *descriptors.Tree
	// Unmatched is the number of descriptors that have neither a rule nor an override.
	Unmatched int
	// Invalid describes the first invalid value or override, or is nil if there is none. Clients
	// choose values, and Envoy lets a request pass after an error. So an invalid value is treated
	// as an exceeded limit of its descriptor, and all other limits count the request as usual.
	Invalid error
	// Token settles the reservations of an admitted request. It is "" if the request has none.
	Token string

	matches   []match          // one for each descriptor
	levels    []level          // levels of all matches, in their order
	replacing []*limiter.Limit // limits that replace other limits, without duplicates
	keys      []byte           // keys of all hits, one after the other
	holds     []byte           // names of holds, one after the other
	entries   []limiter.Entry  // entries of matches with a hold, without the entry that names the hold
	name      []byte           // name of the request's reservations, a digest of Token
	labels    []byte           // labels of all hits whose labels contain values of the request
	groups    []limiter.Entry  // names of the groups of quotas, in the order of their numbers, see group
	work      descriptors.Work // remaining work for matching values with patterns
}

// match is the rule, the levels and the exception that apply to one descriptor of a request.
type match struct {
	rule      *descriptors.Rule // the rule that the descriptor leads to, or nil if there is none
	reported  *descriptors.Rule // the rule that the status shows: rule, or nil if an override replaces it and rule has no field override
	entries   []limiter.Entry   // entries of the descriptor, without the entry that names its hold
	hold      []byte            // name of the descriptor's hold, or nil if it has none
	exception *Exception        // exception that applies to the descriptor, or nil
	unlimited bool              // a limit or an exception admits everything
	inFlight  bool              // a limit counts requests in flight

	firstLevel, endLevel int // range in Plan.levels: the rule or the override, then the rules above it
	firstHit, endHit     int // range in Plan.Hits
}

// level contains the limits of one rule, of an override or of an exception.
type level struct {
	rule   *descriptors.Rule // nil for an exception, or for an override unless the rule has the field override
	sent   bool              // the level is an override or an exception, so no amount is assigned to it
	limits []*limiter.Limit  // including replaced limits
	// entries and patterns identify the counters, see limiter.Keys.Append.
	entries  []limiter.Entry
	patterns []string

	endHit int // end of the level's hits in Plan.Hits
}

// Prepare fills p with the hits of r under the rules of tree. If r is invalid, it returns an error,
// and p has no hits. p refers to the memory of r until p is reset.
func (pl *Planner) Prepare(p *Plan, tree *descriptors.Tree, r *Request) error {
	return pl.prepare(p, tree, r, descriptors.MaxWork)
}

// prepare is Prepare with a given amount of work.
func (pl *Planner) prepare(p *Plan, tree *descriptors.Tree, r *Request, work descriptors.Work) error {
	p.Reset()
	p.Tree, p.work = tree, work
	if err := r.check(pl.MaxDescriptors); err != nil {
		return err
	}
	exceptions := pl.Exceptions.Load()
	for i := range r.Descriptors {
		if err := pl.addMatch(p, r.Domain, &r.Descriptors[i], exceptions); err != nil && p.Invalid == nil {
			p.Invalid = fmt.Errorf("descriptor %d: %w", i, err)
		}
	}
	for i := range p.matches { // after all matches, because any of them may replace limits
		pl.addHits(p, r, i)
	}
	return nil
}

// Reset removes all references to the request and to the rules, but keeps the memory of the
// slices.
func (p *Plan) Reset() {
	clear(p.Hits)
	clear(p.matches)
	clear(p.levels)
	clear(p.replacing)
	clear(p.entries)
	clear(p.groups)
	*p = Plan{
		Hits: p.Hits[:0], matches: p.matches[:0], levels: p.levels[:0], replacing: p.replacing[:0],
		keys: p.keys[:0], holds: p.holds[:0], entries: p.entries[:0], labels: p.labels[:0], groups: p.groups[:0],
	}
}

// Counted returns the entries of descriptor i without the entry that names its hold.
func (p *Plan) Counted(i int) []limiter.Entry { return p.matches[i].entries }

// addMatch adds the match of a descriptor and its levels, which an exception may replace. Its
// error is about an invalid value or override of the descriptor, see Plan.Invalid.
func (pl *Planner) addMatch(p *Plan, domain string, d *Descriptor, exceptions *Exceptions) error {
	rule, holdEntry, entries := p.Tree.Match(domain, d.Entries, &p.work)
	m := match{rule: rule, reported: rule, entries: entries, firstLevel: len(p.levels)}
	if holdEntry >= 0 {
		p.nameHold(&m, holdEntry)
	}
	invalid := pl.addLevels(p, &m, domain, d)
	if len(p.levels) == m.firstLevel {
		p.Unmatched++
	}
	// Allow and Deny do not apply to refunds. Otherwise units taken before the exception could
	// not be refunded.
	if e := exceptions.Find(domain, m.entries); e != nil && (!d.Refund || e.Effect == Amount) {
		m.exception = e
	}
	switch {
	case m.exception.is(Allow):
		m.unlimited, p.levels, invalid = true, p.levels[:m.firstLevel], nil
	case m.exception.is(Deny):
		denial := pl.denial(exceptedKey{domain: p.Tree.DomainLabel(domain), by: "exception"})
		p.levels, invalid = append(p.levels[:m.firstLevel], level{limits: denial, sent: true, entries: m.entries[:len(m.exception.Entries)]}), nil
	}
	m.endLevel = len(p.levels)
	p.matches = append(p.matches, m)
	return invalid
}

// reserve makes h, the last hit of p, a settlement of the reservation with this name or, if name is
// nil, a new reservation. h's key starts at start in p.keys. reserve does nothing for a refund, and
// makes no reservation if the descriptor has its own number of hits, which reports past use.
func (p *Plan) reserve(h *limiter.Hit, name []byte, d *Descriptor, start int) {
	if d.Refund || name == nil && d.HasHitsAddend {
		return
	}
	if h.Refund = name != nil; !h.Refund {
		if p.Token == "" {
			p.Token = rand.Text()
			p.name = p.appendName(p.Token)
		}
		name = p.name
	}
	p.keys = limiter.AppendReservation(p.keys, name)
	h.Reservation, h.Always = p.keys[start:len(p.keys):len(p.keys)], false
}

// nameHold sets the name of m's hold from the entry at holdEntry, unless the entry's value is empty.
// It removes the entry from m.entries to keep it out of the keys of counters.
func (p *Plan) nameHold(m *match, holdEntry int) {
	if value := m.entries[holdEntry].Value; value != "" {
		m.hold = p.appendName(value)
	}
	first := len(p.entries)
	p.entries = append(append(p.entries, m.entries[:holdEntry]...), m.entries[holdEntry+1:]...)
	m.entries = p.entries[first:len(p.entries):len(p.entries)]
}

// appendName returns the digest of a value, which names a hold or a reservation.
func (p *Plan) appendName(value string) []byte {
	start := len(p.holds)
	p.holds = append(p.holds, value...) // only for hashing without allocation
	digest := sha256.Sum256(p.holds[start:])
	p.holds = append(p.holds[:start], digest[:limiter.HoldSize]...)
	return p.holds[start:len(p.holds):len(p.holds)]
}

// addLevels adds the levels of m: its override or its rule, then the rules above whose limits
// also apply to m. It returns an error if the override is invalid, or if a limit needs a hold
// and m has none.
func (pl *Planner) addLevels(p *Plan, m *match, domain string, d *Descriptor) (err error) {
	lowest := m.rule // lowest rule whose limits apply
	if d.HasOverride {
		lowest, err = pl.addOverride(p, m, domain, d.Override)
	}
	m.inFlight = m.inFlight || lowest != nil && lowest.InFlight
	for rule := lowest; rule != nil; rule = rule.Above {
		p.addLevel(level{rule: rule, limits: rule.Limits, entries: rule.Counted(m.entries), patterns: rule.Patterns})
	}
	if m.inFlight && m.hold == nil {
		return fmt.Errorf("rule %[2]s needs an entry %[1]q with a value that names the request in flight", m.rule.Hold, m.rule)
	}
	return err
}

// addLevel adds a level and collects its limits that replace others.
func (p *Plan) addLevel(added level) {
	p.levels = append(p.levels, added)
	for _, l := range added.limits {
		if len(l.Replaces) > 0 && !slices.Contains(p.replacing, l) {
			p.replacing = append(p.replacing, l)
		}
	}
}

// isReplaced reports whether a limit of the request replaces l, even a limit that is itself replaced.
func (p *Plan) isReplaced(l *limiter.Limit) bool {
	return l.Name != "" && !l.Veto && slices.ContainsFunc(p.replacing, func(by *limiter.Limit) bool {
		_, found := slices.BinarySearch(by.Replaces, l.Name)
		return found
	})
}

// group returns the number of a descriptor's group of quotas, or 0 if no entry has one of GroupKeys.
// It adds the group to p if the group is new.
func (pl *Planner) group(p *Plan, entries []limiter.Entry) (number uint8) {
	if !slices.ContainsFunc(entries, func(e limiter.Entry) bool { return slices.Contains(pl.GroupKeys, e.Key) }) {
		return 0
	}
	first := len(p.groups)
	for _, key := range pl.GroupKeys {
		name := limiter.Entry{Key: key}
		if i := slices.IndexFunc(entries, func(e limiter.Entry) bool { return e.Key == key }); i >= 0 {
			name = entries[i]
		}
		p.groups = append(p.groups, name)
	}
	for name := range slices.Chunk(p.groups[:first], len(pl.GroupKeys)) {
		if number++; slices.Equal(name, p.groups[first:]) {
			p.groups = p.groups[:first]
			return number
		}
	}
	return number + 1
}

// addHits adds a hit for every limit of match i that is neither unlimited nor replaced. An
// unlimited limit cannot be replaced.
func (pl *Planner) addHits(p *Plan, r *Request, i int) {
	m, d := &p.matches[i], &r.Descriptors[i]
	m.firstHit = len(p.Hits)
	group, grouped := uint8(0), false // grouped: group is known
	for j := m.firstLevel; j < m.endLevel; j++ {
		level := &p.levels[j]
		var labels, prefix []byte // labels of the level's hits, and start of their keys
		if level.rule != nil {
			start := len(p.labels)
			if p.labels = level.rule.AppendLabels(p.labels, m.entries); len(p.labels) > start { // labels that contain values of the request
				labels = p.labels[start:len(p.labels):len(p.labels)]
			}
		}
		for _, l := range level.limits {
			l = pl.limit(m, level, r.Domain, l)
			isHold := l.HoldKey() != ""
			switch {
			case l.Unlimited:
				m.unlimited = true
				continue
			case d.Refund && (l.Veto || m.inFlight && (!isHold || m.hold == nil)):
				continue // A refund releases only the hold; the request itself stays counted. A veto has charged nothing.
			case p.isReplaced(l):
				continue
			case isHold && m.hold == nil:
				l = pl.denial(exceptedKey{limit: l})[0]
			}
			start := len(p.keys)
			if prefix == nil {
				p.keys = pl.Keys.Append(p.keys, r.Domain, level.entries, level.patterns)
				prefix = p.keys[start:]
			} else {
				p.keys = append(p.keys, prefix...)
			}
			p.keys = l.AppendKind(p.keys)
			p.Hits = append(p.Hits, limiter.Hit{
				Limit:  l,
				Key:    p.keys[start:len(p.keys):len(p.keys)],
				Cost:   r.Cost(d),
				Refund: d.Refund,
				Always: d.chargedAlways(cmp.Or(l.Charge, pl.Charge, limiter.Auto)),
				Mode:   pl.DecidingMode(l),
				Labels: labels,
			})
			h := &p.Hits[len(p.Hits)-1]
			if pl.Mode(l) == limiter.Quota || l.ShadowQuota {
				if !grouped {
					group, grouped = pl.group(p, m.entries), true
				}
				h.Group = group
			}
			if isHold {
				h.Hold, h.Cost, h.Always = m.hold, min(h.Cost, 1), false
			}
			if l.Settle != "" {
				p.reserve(h, m.hold, d, start)
			}
		}
		level.endHit = len(p.Hits)
	}
	m.endHit = len(p.Hits)
}
