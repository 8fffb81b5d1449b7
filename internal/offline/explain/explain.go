package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// Answer explains what becomes of a descriptor.
type Answer struct {
	Domain     string   `json:"domain"`
	Descriptor []string `json:"descriptor"`
	Levels     []Level  `json:"levels"`
	// Rule is where the rule is in the tree, empty if none applies. If the descriptor
	// does not end at it, Reason says why, and Candidates are the keys and values, or
	// the domains, that are there instead.
	Rule       string   `json:"rule,omitempty"`
	Place      string   `json:"place,omitempty"`     // in the files
	Otherwise  bool     `json:"otherwise,omitempty"` // the rule is that of the domain for what no other is for
	Reason     string   `json:"reason,omitempty"`
	Candidates []string `json:"candidates,omitempty"`
	// Hidden is a rule that would apply if a more specific one did not hide it.
	Hidden string `json:"hidden,omitempty"`
	// Limits are those of the rule, none if it is a whitelist entry, and then those of
	// rules above that hold below.
	Limits []Limit `json:"limits,omitempty"`
	// Shared are the wildcards and the like of the rule whose values all share one counter.
	Shared []string `json:"shared,omitempty"`
	// Override is how the rule has a limit counted that a request brings along.
	Override string `json:"override,omitempty"`
	// Hits is what the descriptor asks for, OwnHits reports whether it says so itself, and Denied what would become of it if all
	// counters were fresh.
	Hits    uint64 `json:"hits"`
	OwnHits bool   `json:"own_hits,omitempty"`
	Denied  bool   `json:"denied"`
}

// Level is what one entry of the descriptor leads to.
type Level struct {
	Entry string `json:"entry"`
	Match string `json:"match"` // value, list, network, wildcard, regex, key, hold or none
	Node  string `json:"node,omitempty"`
	// Network is that of the node's networks which holds the address.
	Network string `json:"network,omitempty"`
}

// matches words how an entry leads to a node.
var matches = map[descriptors.How]string{
	descriptors.Nowhere:    "none",
	descriptors.ByValue:    "value",
	descriptors.ByList:     "list",
	descriptors.ByNetwork:  "network",
	descriptors.ByWildcard: "wildcard",
	descriptors.ByRegex:    "regex",
	descriptors.ByKey:      "key",
	descriptors.NamesHold:  "hold",
}

// Limit is one of a rule's limits. Of an unlimited one there is nothing to tell
// but its name and what it replaces.
type Limit struct {
	// Above is the rule whose limit this is, and Place where that is, if it is another
	// one, above that of the answer.
	Above           string   `json:"above,omitempty"`
	Place           string   `json:"place,omitempty"`
	shared          []string // as in Answer, of this rule
	Name            string   `json:"name,omitempty"`
	Unlimited       bool     `json:"unlimited,omitempty"`
	RequestsPerUnit *uint64  `json:"requests_per_unit,omitempty"`
	Period          string   `json:"period,omitempty"` // such as minute, or 5 minutes
	PeriodSeconds   int64    `json:"period_seconds,omitempty"`
	rate            string   // such as 10 per 5 minutes
	Algorithm       string   `json:"algorithm,omitempty"`
	Anchor          string   `json:"anchor,omitempty"`
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

// Explain answers a question. The error says why a server would refuse the request.
func Explain(q Question) (Answer, error) {
	request := q.request()
	var p plan.Result
	if err := plan.New(q.Options).Prepare(&p, q.Tree, &request); err != nil {
		return Answer{}, err
	}
	a := Answer{
		Domain: descriptors.Spell(limiter.Entry{Key: q.Domain}), Levels: []Level{},
		Hits: request.Cost(&request.Descriptors[0]), OwnHits: q.HitsAddend != nil,
	}
	for _, e := range q.Descriptor {
		a.Descriptor = append(a.Descriptor, descriptors.Spell(e))
	}
	trace := q.Tree.Explain(q.Domain, q.Descriptor)
	for _, l := range trace.Levels {
		level := Level{Entry: descriptors.Spell(l.Entry), Match: matches[l.How], Network: l.Network}
		if l.How != descriptors.Nowhere && l.How != descriptors.NamesHold {
			level.Node = descriptors.Spell(l.Node)
		}
		a.Levels = append(a.Levels, level)
	}
	if !trace.Ends {
		a.Reason, a.Candidates = reason(q, trace)
		a.Hidden = hidden(trace.Hidden)
	}
	if r := trace.Rule; r != nil {
		a.Rule, a.Place, a.Otherwise, a.Shared = r.String(), r.Place(), r.IsOtherwise(), r.Shared()
		if r.Override != nil {
			a.Override = r.Override.String()
		}
		a.addLimits(&q, &p, r)
	}
	return a, nil
}

// reason returns why the descriptor ends at no rule, and what is there instead.
func reason(q Question, trace descriptors.Trace) (why string, candidates []string) {
	if !trace.Known {
		return fmt.Sprintf("there are no rules for the domain %q", q.Domain), trace.Domains
	}
	n := len(trace.Levels)
	above := "the domain"
	switch {
	case n > 0 && trace.Levels[n-1].How == descriptors.Nowhere:
		missing := trace.Levels[n-1].Entry
		if n > 1 {
			above = descriptors.Spell(trace.Levels[n-2].Node)
		}
		why = fmt.Sprintf("below %s nothing matches %s%s", above, descriptors.Spell(missing), meantEquals(missing, trace.Children))
		slices.SortStableFunc(trace.Children, func(a, b limiter.Entry) int { // the likeliest first
			return cmp.Compare(differs(a.Key, missing.Key), differs(b.Key, missing.Key))
		})
	default:
		if n > 0 {
			above = descriptors.Spell(trace.Levels[n-1].Node)
		}
		why = fmt.Sprintf("the descriptor ends at %s, which only leads to others", above)
	}
	for _, e := range trace.Children {
		candidates = append(candidates, descriptors.Spell(e))
	}
	return why, candidates
}

// meantEquals returns a hint at an entry that has a colon for its =, which one of the rules
// begins, "" if that is not so.
func meantEquals(e limiter.Entry, rules []limiter.Entry) string {
	key, value, found := strings.Cut(e.Key, ":")
	if !found || e.Value != "" || !slices.ContainsFunc(rules, func(r limiter.Entry) bool { return r.Key == key }) {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", FormatDescriptor([]limiter.Entry{{Key: key, Value: value}}))
}

// hidden words which rule is hidden and by what, "" if there is none.
func hidden(h *descriptors.Hidden) string {
	if h == nil {
		return ""
	}
	general := descriptors.Spell(h.General)
	if h.General.Value == "" {
		general += " (any value)"
	}
	var way []string
	for _, e := range h.Way {
		way = append(way, descriptors.Spell(e))
	}
	return fmt.Sprintf("%s has %s; %s hides it", general, cmp.Or(strings.Join(way, ", "), "a rule"), descriptors.Spell(h.By))
}

func differs(a, b string) int {
	if a == b {
		return 0
	}
	return 1
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
	a.Denied = limiter.Decide(p.Hits, states, 0, p.Decisions)
	var limits []*limiter.Limit
	for r := rule; r != nil; r = r.Above {
		limits = append(limits, r.Limits...)
	}
	next := 0 // hit: the limits that are counted have one each, in order
	for r := rule; r != nil; r = r.Above {
		for _, l := range r.Limits {
			shown := about(l, q.Charge, q.Failure)
			shown.shared = r.Shared()
			if r != rule {
				shown.Above, shown.Place = r.String(), r.Place()
			}
			if mode := q.DecidingMode(l); mode != l.Mode && !l.Unlimited {
				shown.DecidedAs, shown.Switch = descriptors.ModeWord(mode), switches[mode]
			}
			switch {
			case next < len(p.Hits) && p.Hits[next].Limit == l:
				shown.addCounter(q.Store, p.Hits[next].Key, &p.Decisions[next])
				next++
			case !l.Unlimited:
				shown.ReplacedBy = replacing(l, limits)
			}
			a.Limits = append(a.Limits, shown)
		}
	}
}

// addCounter says where the limit is counted, and what was decided there.
func (l *Limit) addCounter(store Store, key []byte, d *limiter.Decision) {
	if store >= InRedis {
		l.Key = limiter.KeyText(key)
	}
	if store == InCluster {
		l.Slot = new(limiter.Slot(key))
	}
	l.Decision = &Decision{!d.Over, d.Charged, d.Remaining, d.ResetAfter.Seconds()}
	if l.TimeZone != "" {
		l.Decision.ResetAfter = float64(l.PeriodSeconds)
	}
}

// replacing names those of limits that say that they replace l, even
// if they are replaced themselves; one without a name is called by its place.
func replacing(l *limiter.Limit, limits []*limiter.Limit) (names []string) {
	for i, other := range limits {
		if slices.Contains(other.Replaces, l.Name) {
			names = append(names, cmp.Or(other.Name, fmt.Sprintf("limit %d", i+1)))
		}
	}
	return names
}

// about returns what a limit is.
func about(l *limiter.Limit, charge limiter.Charge, failure limiter.FailureMode) Limit {
	a := Limit{Name: l.Name, Unlimited: l.Unlimited, Replaces: l.Replaces}
	if l.Unlimited {
		return a
	}
	words := descriptors.WordsFor(l, charge, failure)
	a.RequestsPerUnit, a.rate = &l.RequestsPerUnit, l.Rate()
	a.Period, a.PeriodSeconds = words.Period, int64(l.Period()/time.Second)
	a.Algorithm, a.Anchor, a.TimeZone, a.Charge, a.Mode = words.Algorithm, words.Anchor, words.TimeZone, words.Charge, words.Mode
	a.DenyFor, a.FailureMode = words.DenyFor, words.FailureMode
	a.Hold = l.HoldKey()
	if l.Algorithm.Takes(limiter.BurstOption) {
		a.Burst = new(l.Size())
	}
	return a
}
