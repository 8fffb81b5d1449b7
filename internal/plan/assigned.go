package plan

import (
	"encoding/binary"
	"hash/crc32"
	"iter"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Assigned has the amounts that operators assigned to limits for single descriptors, such as
// what a customer bought. It is safe for concurrent use. The zero value and nil have none.
type Assigned struct {
	Parts [AssignedParts]AssignedPart
	used  atomic.Bool // an amount was assigned since the start
}

// AssignedParts is the number of parts of Assigned. All servers on one Redis must have the same.
const AssignedParts = 16

// AssignedPart is a part of Assigned.
type AssignedPart struct {
	mu      sync.RWMutex
	amounts map[string]assignedAmount // by ID
	used    *atomic.Bool              // of Assigned
}

// assignedAmount takes 24 bytes, because there may be a million.
type assignedAmount struct {
	amount uint64
	text   string // as in Redis
}

// Unlimited is the assigned amount that admits everything.
const Unlimited = math.MaxUint64

// unread is the amount of a text that this version cannot read.
const unread = Unlimited - 1

// NewAssigned returns an Assigned without amounts.
func NewAssigned() *Assigned {
	a := new(Assigned)
	for i := range a.Parts {
		a.Parts[i].amounts, a.Parts[i].used = map[string]assignedAmount{}, &a.used
	}
	return a
}

// ParseAmount parses unlimited or an amount that a limit can have.
func ParseAmount(text string) (uint64, bool) {
	if text == "unlimited" {
		return Unlimited, true
	}
	amount, err := strconv.ParseUint(text, 10, 64)
	return amount, err == nil && amount <= limiter.MaxAmount
}

// AssignedID returns the ID of the amount of a limit for a descriptor, and its part. entries are
// those of the limit's counter, and limit is the limit's name, which may be empty.
func AssignedID(domain string, entries []limiter.Entry, limit string) (id string, part int) {
	key := appendAssigned(nil, domain, entries, limit)
	return string(key), partOf(key)
}

func appendAssigned(key []byte, domain string, entries []limiter.Entry, limit string) []byte {
	return appendText(appendDescriptor(key, domain, entries), limit)
}

func partOf(id []byte) int { return int(crc32.ChecksumIEEE(id) % AssignedParts) }

// ReadAssignedID returns the parts of an ID. They are empty if id is invalid.
func ReadAssignedID(id string) (domain string, entries []limiter.Entry, limit string) {
	var texts []string
	for rest := []byte(id); len(rest) > 0; {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return "", nil, ""
		}
		texts = append(texts, string(rest[n:n+int(size)]))
		rest = rest[n+int(size):]
	}
	if len(texts) < 4 || len(texts)%2 != 0 {
		return "", nil, ""
	}
	for i := 1; i+1 < len(texts); i += 2 {
		entries = append(entries, limiter.Entry{Key: texts[i], Value: texts[i+1]})
	}
	return texts[0], entries, texts[len(texts)-1]
}

// Put sets the text of an ID, which begins with the amount and a newline, or removes it if text is
// empty.
func (p *AssignedPart) Put(id, text string) {
	number, _, _ := strings.Cut(text, "\n")
	amount, ok := ParseAmount(number)
	if !ok {
		amount = unread
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == "" {
		delete(p.amounts, id)
		return
	}
	p.amounts[id] = assignedAmount{amount, text}
	p.used.Store(true)
}

// Text returns the text of an ID, or "".
func (p *AssignedPart) Text(id string) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.amounts[id].text
}

// Len returns the number of texts.
func (p *AssignedPart) Len() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.amounts)
}

// All yields the texts by ID, and "" for a text that cannot be read. Changes wait meanwhile, so yield must
// not block.
func (p *AssignedPart) All() iter.Seq2[string, string] {
	return func(yield func(id, text string) bool) {
		p.mu.RLock()
		defer p.mu.RUnlock()
		for id, a := range p.amounts {
			if a.amount == unread {
				a.text = ""
			}
			if !yield(id, a.text) {
				return
			}
		}
	}
}

// find returns the amount that is assigned to a limit for the entries of its counter. It allocates
// only if the texts have more than 512 bytes in total.
func (a *Assigned) find(domain string, entries []limiter.Entry, limit string) (amount uint64, assigned bool) {
	if a == nil || !a.used.Load() {
		return 0, false
	}
	var room [512]byte
	id := appendAssigned(room[:0], domain, entries, limit)
	p := &a.Parts[partOf(id)]
	p.mu.RLock()
	found, assigned := p.amounts[string(id)]
	p.mu.RUnlock()
	return found.amount, assigned && found.amount != unread
}

// limit returns the limit that counts in place of a limit l of a level. Of the amounts that
// differ from the rule's own, the most specific one counts: an exception multiplies what the
// request sends, or else what is assigned. See addOverride for an amount that is sent.
func (pl *Planner) limit(m *match, of *level, domain string, l *limiter.Limit) *limiter.Limit {
	if !of.sent {
		if amount, assigned := pl.Assigned.find(domain, of.entries, l.Name); assigned {
			l = pl.withAmount(of.rule, l, amount)
		}
	}
	if m.exception.is(Amount) {
		l = pl.multiple(l, m.exception.Factor)
	}
	return l
}

// withAmount returns l with an assigned amount, at most the maximum of rule, and a burst in
// proportion. It counts on the same counter. If the algorithm cannot count the amount, it returns l.
func (pl *Planner) withAmount(rule *descriptors.Rule, l *limiter.Limit, amount uint64) *limiter.Limit {
	limits, _ := pl.excepted.get(exceptedKey{limit: l, assigned: true, amount: AtMost(rule, amount)}, func() ([]*limiter.Limit, error) {
		assigned, err := WithAmount(rule, l, amount)
		if err != nil {
			assigned = l
		}
		return []*limiter.Limit{assigned}, nil
	})
	return limits[0]
}

// AtMost returns the amount that counts for a rule if amount is assigned.
func AtMost(rule *descriptors.Rule, amount uint64) uint64 {
	if rule.Override != nil && rule.Override.Most > 0 {
		return min(amount, rule.Override.Most)
	}
	return amount
}

// WithAmount returns the limit that counts if amount is assigned to the limit l of a rule. It fails
// if the algorithm cannot count the amount.
func WithAmount(rule *descriptors.Rule, l *limiter.Limit, amount uint64) (*limiter.Limit, error) {
	if amount = AtMost(rule, amount); amount == Unlimited {
		s := l.Spec
		s.Unlimited = true
		return limiter.NewLimit(s)
	}
	like := descriptors.Override{Like: l, Series: l.Series}
	return like.NewLimit(amount, l.Unit, l.UnitMultiplier, false)
}

// Limit returns the limit that counts for the limit l of a rule, whose counter has entries, where no
// request sends another one and no exception applies.
func (a *Assigned) Limit(rule *descriptors.Rule, domain string, entries []limiter.Entry, l *limiter.Limit) *limiter.Limit {
	if amount, assigned := a.find(domain, entries, l.Name); assigned {
		if limit, err := WithAmount(rule, l, amount); err == nil {
			return limit
		}
	}
	return l
}

// boundByAssigned lowers what a request sends to what is assigned to the limit of the rule that it
// replaces.
func (pl *Planner) boundByAssigned(key *overrideKey, domain string, m *match) {
	for _, l := range m.rule.Limits {
		amount, assigned := pl.Assigned.find(domain, m.rule.Counted(m.entries), l.Name)
		switch {
		case !assigned || amount == Unlimited:
			continue
		case amount == 0:
			key.RequestsPerUnit = 0
		case key.bound.Most == 0 || amount < key.bound.Most:
			key.bound = descriptors.Override{Like: l, Most: amount, Series: key.judge.Series}
		}
		return
	}
}
