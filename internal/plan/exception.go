package plan

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/limiter"
)

// Effect is the kind of change that an exception makes.
type Effect string

// The effects.
const (
	Allow  Effect = "allow"  // no limit applies
	Deny   Effect = "deny"   // every request is denied
	Amount Effect = "amount" // the amounts of all limits are multiplied
)

// Effects lists all effects.
var Effects = []Effect{Allow, Deny, Amount}

// Exception changes the limits for the descriptors of a domain that begin with the exception's
// entries. Operators add exceptions, which expire. Operators send and see exceptions as JSON, and
// servers share them as JSON. An Exception is immutable, except for the number of its uses.
type Exception struct {
	ID string `json:"id,omitempty"`
	JSONDescriptor
	Effect  Effect    `json:"effect"`
	Factor  float64   `json:"factor,omitempty"` // for the effect Amount, from 0.001 to 1,000,000
	For     float64   `json:"for,omitempty"`    // duration in seconds
	By      string    `json:"by"`               // name of the person who adds it
	Reason  string    `json:"reason"`
	Created time.Time `json:"created,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Used    *uint64   `json:"used,omitempty"` // number of descriptors to which it applied, on this server or on all servers that were asked
	Note    string    `json:"note,omitempty"` // a likely mistake in the exception, only in answers to POST /exceptions

	// Uses counts the uses of all exceptions with this effect, for example as a
	// prometheus.Counter. nil disables it.
	Uses interface{ Inc() } `json:"-"`
}

// is reports whether e has the effect. It returns false if e is nil.
func (e *Exception) is(effect Effect) bool { return e != nil && e.Effect == effect }

// Now returns a copy of e with the number of uses until now.
func (e *Exception) Now() Exception {
	now := *e
	now.Used = new(atomic.LoadUint64(e.Used))
	return now
}

// Times returns l times the factor of e if e has the effect Amount, and l itself otherwise. e may be nil.
func (e *Exception) Times(l *limiter.Limit) *limiter.Limit {
	if e.is(Amount) {
		return l.Times(e.Factor)
	}
	return l
}

// What returns the effect with its factor, such as "amount 10x".
func (e *Exception) What() string {
	if e.Effect == Amount {
		return fmt.Sprintf("%s %gx", e.Effect, e.Factor)
	}
	return string(e.Effect)
}

// Exceptions is an immutable set of exceptions. nil is the empty set.
type Exceptions struct {
	all     []*Exception          // newest first
	longest int                   // highest number of entries of an exception
	index   map[string]*Exception // by domain and entries, joined by appendText
}

// NewExceptions returns the set of the given exceptions, or nil if there are none. It keeps and
// sorts the slice. If several exceptions have the same domain and entries, only the newest
// applies.
func NewExceptions(all []*Exception) *Exceptions {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *Exception) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
	es := &Exceptions{all: all, index: make(map[string]*Exception, len(all))}
	for _, e := range all {
		domain, entries := e.Bytes()
		key := appendDescriptor(nil, domain, entries)
		if es.index[string(key)] == nil {
			es.index[string(key)] = e
		}
		es.longest = max(es.longest, len(e.Entries))
		if e.Used == nil { // otherwise, requests may already use e
			e.Used = new(uint64)
		}
	}
	return es
}

// appendText appends text, preceded by its length, so that different lists of texts have
// different keys.
func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}

// appendDescriptor appends a domain and entries.
func appendDescriptor(key []byte, domain string, entries []limiter.Entry) []byte {
	key = appendText(key, domain)
	for _, entry := range entries {
		key = appendText(appendText(key, entry.Key), entry.Value)
	}
	return key
}

// All returns the exceptions, newest first. The caller must not change the slice.
func (es *Exceptions) All() []*Exception {
	if es == nil {
		return nil
	}
	return es.all
}

// Find returns the exception that applies to a descriptor, or nil if none does. If the
// descriptor begins with the entries of several exceptions, the exception with the most entries
// applies. Find allocates only if domain and entries have more than 512 bytes in total.
func (es *Exceptions) Find(domain string, entries []limiter.Entry) (found *Exception) {
	if es == nil {
		return nil
	}
	var room [512]byte
	key := appendText(room[:0], domain)
	for _, entry := range entries[:min(es.longest, len(entries))] {
		key = appendText(appendText(key, entry.Key), entry.Value)
		if e := es.index[string(key)]; e != nil {
			found = e
		}
	}
	return found
}

// exceptedKey identifies a limit that the planner makes: a multiple of a limit, a limit with an
// assigned amount, or a limit that denies everything.
type exceptedKey struct {
	limit      *limiter.Limit // limit to change or deny, or nil
	factor     float64        // factor of a multiple, or 0
	assigned   bool           // whether amount is set
	amount     uint64
	domain, by string // labels for domain and rule in metrics if limit is nil
}

// multiple returns l times factor.
func (pl *Planner) multiple(l *limiter.Limit, factor float64) *limiter.Limit {
	limits, _ := pl.excepted.get(exceptedKey{limit: l, factor: factor}, func() ([]*limiter.Limit, error) {
		return []*limiter.Limit{l.Times(factor)}, nil
	})
	return limits[0]
}

// denial returns a single limit that denies everything and is never charged. If key has a limit,
// the denial has the name, period, mode and metrics of that limit. key.domain is empty for a
// domain without rules.
func (pl *Planner) denial(key exceptedKey) []*limiter.Limit {
	limits, _ := pl.excepted.get(key, func() ([]*limiter.Limit, error) { // the limit keeps no text of a request
		denial := limiter.NewDenial(cmp.Or(key.domain, "unknown"), key.by)
		if l := key.limit; l != nil {
			s := denial.Spec
			s.Name, s.Unit, s.UnitMultiplier, s.Mode, s.Series = l.Name, l.Unit, l.UnitMultiplier, l.Mode, l.Series
			denial = limiter.MustLimit(s)
		}
		return []*limiter.Limit{denial}, nil
	})
	return limits
}

// useExceptions counts the uses of exceptions. If an exception denies the request, the time to
// retry is the time until the exception expires.
func (res *Result) useExceptions() {
	for i := range res.Plan.matches {
		m := &res.Plan.matches[i]
		if m.exception == nil {
			continue
		}
		atomic.AddUint64(m.exception.Used, 1)
		if m.exception.Uses != nil {
			m.exception.Uses.Inc()
		}
		if m.exception.Effect == Deny && res.Decisions[m.firstHit].Over { // the only hit of the match
			left := max(time.Until(m.exception.Until), 1)
			res.Decisions[m.firstHit].RetryAfter, res.Decisions[m.firstHit].ResetAfter = left, left
		}
	}
}
