package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// Question is what shall be explained.
type Question struct {
	plan.Options
	Tree       *descriptors.Tree
	Failure    limiter.FailureMode // of limits that do not say it themselves
	Domain     string
	Descriptor []limiter.Entry
	// HitsAddend is the descriptor's own, 0 of which is a peek. nil is none: the
	// request asks for one unit.
	HitsAddend *uint64
	// Redis and Cluster report whether counters have a key in Redis, and a slot in a cluster.
	Redis, Cluster bool
}

// Answer explains what becomes of a descriptor.
type Answer struct {
	Domain     string   `json:"domain"`
	Descriptor []string `json:"descriptor"`
	Levels     []Level  `json:"levels"`
	// Rule is where the rule is in the tree, empty if none applies. If the descriptor
	// does not end at it, Reason says why, and Candidates are the keys and values, or
	// the domains, that are there instead.
	Rule       string   `json:"rule,omitempty"`
	Place      string   `json:"place,omitempty"`   // in the files
	Keyless    bool     `json:"keyless,omitempty"` // the rule has no key: it applies where no other of its level matches
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
var matches = [...]string{
	descriptors.Nowhere: "none", descriptors.ByValue: "value", descriptors.ByList: "list", descriptors.ByNetwork: "network",
	descriptors.ByWildcard: "wildcard", descriptors.ByRegex: "regex", descriptors.ByKey: "key", descriptors.NamesHold: "hold",
}

// Explain answers a question. The error says why a server would refuse the request.
func Explain(q Question) (Answer, error) {
	d := plan.Descriptor{Entries: q.Descriptor}
	if q.HitsAddend != nil {
		d.HitsAddend, d.HasHitsAddend = *q.HitsAddend, true
	}
	request := plan.Request{Domain: q.Domain, Descriptors: []plan.Descriptor{d}}
	var p plan.Result
	if err := plan.New(q.Options).Prepare(&p, q.Tree, &request); err != nil {
		return Answer{}, err
	}
	a := Answer{
		Domain: descriptors.Spell(limiter.Entry{Key: q.Domain}), Descriptor: spell(q.Descriptor), Levels: []Level{},
		Hits: request.Cost(&d), OwnHits: d.HasHitsAddend,
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
		a.addReason(q.Tree, q.Domain, &trace)
	}
	if r := trace.Rule; r != nil {
		a.Rule, a.Place, a.Keyless, a.Shared = r.String(), r.Place(), r.IsKeyless(), r.Shared()
		if r.Override != nil {
			a.Override = r.Override.String()
		}
		a.addLimits(&q, &p, r)
	}
	return a, nil
}

// spell returns entries as people read them.
func spell(entries []limiter.Entry) (texts []string) {
	for _, e := range entries {
		texts = append(texts, descriptors.Spell(e))
	}
	return texts
}

// addReason says why the descriptor ends at no rule, and what is there instead.
func (a *Answer) addReason(tree *descriptors.Tree, domain string, trace *descriptors.Trace) {
	if !tree.HasDomain(domain) {
		a.Reason, a.Candidates = fmt.Sprintf("there are no rules for the domain %q", domain), tree.DomainNames()
		return
	}
	way, above := trace.Levels, "the domain"
	var missing *limiter.Entry
	if n := len(way); n > 0 && way[n-1].How == descriptors.Nowhere {
		missing, way = &way[n-1].Entry, way[:n-1]
	}
	if n := len(way); n > 0 {
		above = descriptors.Spell(way[n-1].Node)
	}
	if missing == nil {
		a.Reason = fmt.Sprintf("the descriptor ends at %s, which only leads to others", above)
	} else {
		a.Reason = fmt.Sprintf("below %s nothing matches %s", above, descriptors.Spell(*missing))
		key, value, colon := strings.Cut(missing.Key, ":")
		if colon && missing.Value == "" && slices.ContainsFunc(trace.Children, func(e limiter.Entry) bool { return e.Key == key }) {
			a.Reason += fmt.Sprintf(" (did you mean %s?)", FormatDescriptor([]limiter.Entry{{Key: key, Value: value}}))
		}
		same := slices.DeleteFunc(slices.Clone(trace.Children), func(e limiter.Entry) bool { return e.Key != missing.Key })
		trace.Children = append(same, slices.DeleteFunc(trace.Children, func(e limiter.Entry) bool { return e.Key == missing.Key })...)
	}
	a.Candidates = spell(trace.Children)
	if h := trace.Hidden; h != nil {
		general := descriptors.Spell(h.General)
		if h.General.Value == "" {
			general += " (any value)"
		}
		a.Hidden = fmt.Sprintf("%s has %s; %s hides it", general, cmp.Or(strings.Join(spell(h.Way), ", "), "a rule"), descriptors.Spell(h.By))
	}
}
