package explain

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/spelling"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// Question is a descriptor to explain, with the rules and the settings that apply to it.
type Question struct {
	plan.Options
	Tree       *descriptors.Tree
	Failure    limiter.FailureMode // default for limits without a failure mode
	Domain     string
	Descriptor []limiter.Entry
	// HitsAddend is the descriptor's hits_addend; 0 asks for a peek. If nil, hits cost 1.
	HitsAddend *uint64
	// Amount, unless it is "", is assigned to the limits of the descriptor's rule, see plan.ParseAmount.
	Amount string
	// Redis reports whether counters are in Redis, and Cluster whether this Redis is a cluster.
	Redis, Cluster bool
}

// Answer explains how a descriptor is limited.
type Answer struct {
	Domain     string   `json:"domain"`
	Descriptor []string `json:"descriptor"`
	Path
	// Limits are the limits of the rule, then the limits of the rules above it that also
	// apply below. A whitelist entry has no limits of its own.
	Limits []Limit `json:"limits,omitempty"`
	// Shared lists the patterns of the rule, such as wildcards, whose values share one counter.
	Shared []string `json:"shared,omitempty"`
	// Override describes how the rule treats a limit that the request sends.
	Override string `json:"override,omitempty"`
	// Hits is the cost of each hit, and OwnHits reports whether the descriptor sets it. Denied
	// reports whether the request would be denied on unused counters.
	Hits    uint64 `json:"hits"`
	OwnHits bool   `json:"own_hits,omitempty"`
	Denied  bool   `json:"denied"`
}

// Path is the path of a descriptor through the tree of rules.
type Path struct {
	Levels []Level `json:"levels"`
	// Rule is the path of the rule in the tree, or empty if none applies. If the descriptor does
	// not end at a rule with a key, Reason explains where it ends, and Candidates are the keys
	// and values, or the domains, that exist at that level.
	Rule       string   `json:"rule,omitempty"`
	Location   string   `json:"location,omitempty"` // location of the rule in the files
	Keyless    bool     `json:"keyless,omitempty"`  // whether the rule has no key, and so applies where no other rule of its level matches
	Reason     string   `json:"reason,omitempty"`
	Candidates []string `json:"candidates,omitempty"`
	// Hidden describes a rule that would apply if a more specific rule did not hide it.
	Hidden string `json:"hidden,omitempty"`
	// Divided describes the limit of Rule if Rule has quota_service and the descriptor is its bucket ID.
	Divided string `json:"divided,omitempty"`
}

// Level is one step through the tree: an entry of the descriptor and the node that it matches.
type Level = descriptors.Level

// Explain answers a question. If a server would refuse the request, or deny it because of an
// invalid value, Explain returns the reason as an error.
func Explain(q Question) (Answer, error) {
	d := plan.Descriptor{Entries: q.Descriptor}
	if q.HitsAddend != nil {
		d.HitsAddend, d.HasHitsAddend = *q.HitsAddend, true
	}
	request := plan.Request{Domain: q.Domain, Descriptors: []plan.Descriptor{d}}
	path, r := Find(q.Tree, q.Domain, q.Descriptor)
	if path.Divided != "" {
		r = nil // a divided rule has no counters
	}
	if r != nil && q.Amount != "" {
		q.assign(r)
	}
	var p plan.Plan
	if err := plan.New(q.Options).Prepare(&p, q.Tree, &request); err != nil {
		return Answer{}, err
	}
	if p.Invalid != nil {
		return Answer{}, p.Invalid
	}
	a := Answer{
		Domain: descriptors.Spell(limiter.Entry{Key: q.Domain}), Descriptor: spell(q.Descriptor), Path: path,
		Hits: request.Cost(&d), OwnHits: d.HasHitsAddend,
	}
	if r != nil {
		a.Shared = r.Shared()
		if r.Override != nil {
			a.Override = r.Override.String()
		}
		a.addLimits(&q, &p, r)
	}
	return a, nil
}

// assign assigns the amount to all limits of a rule for the descriptor.
func (q *Question) assign(r *descriptors.Rule) {
	q.Assigned = new(plan.SharedSet)
	for _, l := range r.Limits {
		id, part := plan.AssignedID(q.Domain, q.counted(r), l.Name)
		q.Assigned.Put(part, id, q.Amount)
	}
}

// counted returns the entries in the keys of r's counters. r is the descriptor's rule or a rule above.
func (q *Question) counted(r *descriptors.Rule) []limiter.Entry {
	_, _, entries := q.Tree.MatchCounted(q.Domain, q.Descriptor)
	return r.Counted(entries)
}

// Find returns the path of a descriptor and the rule at its end, or nil if no rule applies. If the
// descriptor is a bucket ID, the path follows its entries in the order of the rule's keys.
func Find(tree *descriptors.Tree, domain string, entries []limiter.Entry) (Path, *descriptors.Rule) {
	trace := tree.Explain(domain, entries)
	p := Path{Levels: append([]Level{}, trace.Levels...), Hidden: trace.Hidden}
	if !trace.Ends {
		p.addReason(tree, domain, entries, &trace)
	}
	r := trace.Rule
	if bucket, ordered := tree.MatchBucket(domain, entries); bucket != nil && r == nil {
		l := bucket.Limits[0]
		r, p.Levels, p.Divided = bucket, tree.Explain(domain, ordered).Levels, fmt.Sprintf("%s, at most %d at once", l.Rate(), l.Size())
	}
	if r != nil {
		p.Rule, p.Location, p.Keyless = r.String(), r.Location(), r.IsKeyless()
	}
	return p, r
}

func spell(entries []limiter.Entry) (texts []string) {
	for _, e := range entries {
		texts = append(texts, descriptors.Spell(e))
	}
	return texts
}

// addReason sets Reason and Candidates for a descriptor that does not end at a rule.
func (p *Path) addReason(tree *descriptors.Tree, domain string, entries []limiter.Entry, trace *descriptors.Trace) {
	if !tree.HasDomain(domain) {
		p.Reason, p.Candidates = Doubt(tree, domain, nil), tree.DomainNames()
		return
	}
	if p.Reason = divided(tree, domain, entries); p.Reason != "" {
		return
	}
	way, above := trace.Levels, "the domain"
	var missing *limiter.Entry
	if n := len(way); n > 0 && way[n-1].Match == "none" {
		missing, way = &entries[n-1], way[:n-1]
	}
	if n := len(way); n > 0 {
		above = way[n-1].Node
	}
	if missing == nil {
		p.Reason = fmt.Sprintf("the descriptor ends at %s, which only leads to others", above)
	} else {
		p.Reason = fmt.Sprintf("below %s nothing matches %s", above, descriptors.Spell(*missing))
		known := keys(trace.Children)
		key, value := spelling.Nearest(missing.Key, known), missing.Value
		if before, after, colon := strings.Cut(missing.Key, ":"); colon && value == "" && slices.Contains(known, before) {
			key, value = before, after
		}
		if key != "" && key != missing.Key {
			p.Reason += fmt.Sprintf(" (did you mean %s?)", FormatDescriptor([]limiter.Entry{{Key: key, Value: value}}))
		}
		same := slices.DeleteFunc(slices.Clone(trace.Children), func(e limiter.Entry) bool { return e.Key != missing.Key })
		trace.Children = append(same, slices.DeleteFunc(trace.Children, func(e limiter.Entry) bool { return e.Key == missing.Key })...)
	}
	p.Candidates = spell(trace.Children)
}

func keys(entries []limiter.Entry) (keys []string) {
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

// divided returns a note if Envoys divide the limit to which the entries lead, and "" otherwise.
func divided(tree *descriptors.Tree, domain string, entries []limiter.Entry) string {
	rule, _ := tree.MatchBucket(domain, entries)
	if rule == nil {
		return ""
	}
	return fmt.Sprintf("%s at %s has quota_service: Envoys divide its limit, and do not ask", rule, rule.Location())
}

// Doubt returns a note if no rule has the domain or the key of an entry, which may be misspelt. The
// note suggests a similar name. Doubt also returns a note if Envoys divide the limit, which then has no
// denials and no exceptions. It returns "" if there is nothing to note, or if tree is nil.
func Doubt(tree *descriptors.Tree, domain string, entries []limiter.Entry) string {
	if tree == nil {
		return ""
	}
	lacks, word, known := "there are no rules for the domain", domain, tree.DomainNames()
	if tree.HasDomain(domain) {
		known = nil
		for r := range tree.All() {
			if of, way := r.Entries(); of == domain {
				known = append(append(known, keys(way)...), r.Hold)
			}
		}
		if note := divided(tree, domain, entries); note != "" {
			return note
		}
		i, work := slices.IndexFunc(entries, func(e limiter.Entry) bool { return !slices.Contains(known, e.Key) }), descriptors.MaxWork
		if rule, _, _ := tree.Match(domain, entries, &work); i < 0 || rule != nil {
			return ""
		}
		lacks, word = "no rule of the domain has the key", entries[i].Key
	}
	note := fmt.Sprintf("%s %q", lacks, word)
	if near := spelling.Nearest(word, known); near != "" {
		note += fmt.Sprintf(", did you mean %q?", near)
	}
	return note
}

// maxCandidates is the maximum number of candidates in the text of an answer.
const maxCandidates = 20

//go:embed explain.txt
var answerText string

var answer = template.Must(template.New("answer").Funcs(template.FuncMap{
	"list":    list,
	"join":    func(names []string) string { return strings.Join(names, ", ") },
	"number":  func(i int) int { return i + 1 },
	"seconds": func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) },
}).Parse(answerText))

// WriteText writes the answer as text for people.
func (a *Answer) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return cmp.Or(answer.Execute(t, a), t.Flush())
}

func list(candidates []string) string {
	more := len(candidates) - maxCandidates
	if more <= 0 {
		return strings.Join(candidates, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(candidates[:maxCandidates], ", "), more)
}
