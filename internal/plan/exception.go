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

// Effect is what an exception does.
type Effect string

// The effects.
const (
	Allow  Effect = "allow"  // no limit holds
	Deny   Effect = "deny"   // every request is denied
	Amount Effect = "amount" // the amounts of all limits are multiplied
)

// Effects are all there are.
var Effects = []Effect{Allow, Deny, Amount}

// Exception is what operators decide in the place of the rules, until a time, for the
// descriptors of a domain that begin with its entries. It is immutable but for its uses.
type Exception struct {
	ID             string
	Domain         string
	Entries        []limiter.Entry
	Effect         Effect
	Factor         float64 // of Amount
	Created, Until time.Time
	By, Reason     string

	// Uses counts those of all exceptions with this effect, as a prometheus.Counter. nil:
	// nobody does.
	Uses interface{ Inc() }
	used atomic.Uint64
}

// is reports whether there is an exception, with that effect.
func (e *Exception) is(effect Effect) bool { return e != nil && e.Effect == effect }

// Used returns how many descriptors e was applied to by this process.
func (e *Exception) Used() uint64 { return e.used.Load() }

// What returns the effect with its factor, such as "amount 10x".
func (e *Exception) What() string {
	if e.Effect == Amount {
		return fmt.Sprintf("%s %gx", e.Effect, e.Factor)
	}
	return string(e.Effect)
}

// Exceptions are those in force at one time. It is immutable. nil has none.
type Exceptions struct {
	all     []*Exception          // the newest first
	longest int                   // how many entries one has at most
	index   map[string]*Exception // by domain and entries, as appendText spells them
}

// NewExceptions returns the set of all, nil if there are none. Of those for the same
// descriptors, only the newest applies.
func NewExceptions(all []*Exception) *Exceptions {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *Exception) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
	es := &Exceptions{all: all, index: make(map[string]*Exception, len(all))}
	for _, e := range all {
		key := appendText(nil, e.Domain)
		for _, entry := range e.Entries {
			key = appendText(appendText(key, entry.Key), entry.Value)
		}
		if es.index[string(key)] == nil {
			es.index[string(key)] = e
		}
		es.longest = max(es.longest, len(e.Entries))
	}
	return es
}

// appendText appends text so that no other texts together have the same bytes.
func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}

// All returns the exceptions, the newest first. They must not be changed.
func (es *Exceptions) All() []*Exception {
	if es == nil {
		return nil
	}
	return es.all
}

// Find returns the exception that applies to a descriptor, nil if none does: of those
// whose entries the descriptor begins with the one that has most. It does not allocate for
// usual texts.
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

// exceptedKey is the key of a limit that stands in place of others: a multiple of a limit, or
// a denial of everything.
type exceptedKey struct {
	limit      *limiter.Limit // that is multiplied or denied, or nil
	factor     float64        // 0 if everything is denied
	domain, by string         // without limit: domain and rule of the denial in metrics
}

// multiple returns l times factor.
func (pl *Planner) multiple(l *limiter.Limit, factor float64) *limiter.Limit {
	limits, _ := pl.excepted.get(exceptedKey{limit: l, factor: factor}, func() ([]*limiter.Limit, error) {
		return []*limiter.Limit{l.Times(factor)}, nil
	})
	return limits[0]
}

// denial returns one limit that denies everything and from which nothing is taken. In place of
// of.limit it has the name, period, mode and metrics of that limit. The domain is empty if it
// has no rules.
func (pl *Planner) denial(of exceptedKey) []*limiter.Limit {
	limits, _ := pl.excepted.get(of, func() ([]*limiter.Limit, error) { // nothing in it is from a request
		s := limiter.Spec{Name: "deny", Unit: limiter.Day}
		if l := of.limit; l != nil {
			s = limiter.Spec{Name: l.Name, Unit: l.Unit, UnitMultiplier: l.UnitMultiplier, Mode: l.Mode, Series: l.Series}
		} else {
			s.Series = limiter.LabelSet{Domain: cmp.Or(of.domain, "unknown"), Key1: of.by, Rule: of.by, Limit: "deny"}.Series()
		}
		s.Veto, s.Charge, s.FailureMode = true, limiter.Admitted, limiter.FailureDeny
		return []*limiter.Limit{limiter.MustLimit(s)}, nil
	})
	return limits
}

// useExceptions counts the uses of exceptions. A request that an exception denies may be tried
// again when the exception expires.
func (res *Result) useExceptions() {
	for i := range res.Plan.matches {
		m := &res.Plan.matches[i]
		if m.exception == nil {
			continue
		}
		m.exception.used.Add(1)
		if m.exception.Uses != nil {
			m.exception.Uses.Inc()
		}
		if m.exception.Effect == Deny && res.Decisions[m.firstHit].Over { // its only hit
			left := max(time.Until(m.exception.Until), 1)
			res.Decisions[m.firstHit].RetryAfter, res.Decisions[m.firstHit].ResetAfter = left, left
		}
	}
}
