package plan

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// SharedSet is a server's copy of the texts that servers share, by part and ID. Part 0 has exceptions.
// The other parts have the amounts that operators assigned to limits for single descriptors, such as
// the amounts that customers bought. A SharedSet is safe for concurrent use.
type SharedSet struct {
	parts [SharedParts]struct {
		mu sync.RWMutex
		texts
	}
	assigned atomic.Bool // an amount has been assigned since the start
}

// SharedParts is the number of parts of a SharedSet. All servers on one Redis must use the same number.
const SharedParts = 17

// Unlimited is the assigned amount that admits everything.
const Unlimited = math.MaxUint64

// ParseAmount parses "unlimited" or an amount that a limit can have. It returns false for other texts.
func ParseAmount(text string) (uint64, bool) {
	if text == "unlimited" {
		return Unlimited, true
	}
	amount, err := strconv.ParseUint(text, 10, 64)
	return amount, err == nil && amount <= limiter.MaxAmount
}

// AssignedID returns the ID and the part under which a SharedSet stores a limit's amount for a descriptor.
// entries are the entries of the limit's counter, and limit is the limit's name, which may be empty.
func AssignedID(domain string, entries []limiter.Entry, limit string) (id string, part int) {
	var room [256]byte
	key := appendAssigned(room[:0], domain, entries, limit)
	id = string(key)
	return id, PartOf(id)
}

func appendAssigned(key []byte, domain string, entries []limiter.Entry, limit string) []byte {
	return appendText(appendDescriptor(key, domain, entries), limit)
}

// PartOf returns the part of an amount's ID, at least 1. It uses FNV-1a; hash/fnv and hash/crc32 would copy id.
func PartOf[ID string | []byte](id ID) int {
	hash := uint32(2166136261)
	for i := range len(id) {
		hash = (hash ^ uint32(id[i])) * 16777619
	}
	return 1 + int(hash>>16%(SharedParts-1))
}

// ReadAssignedID returns the arguments for which AssignedID returns id, or zero values if id is invalid.
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

// Put sets the text of an ID, or removes the ID if text is empty. The text of an assigned amount begins with
// the amount and a newline.
func (s *SharedSet) Put(part int, id, text string) {
	p := &s.parts[part]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(id, text)
	if part > 0 && text != "" {
		s.assigned.Store(true)
	}
}

// Text returns the text of an ID, or "" if it has none.
func (s *SharedSet) Text(part int, id string) string {
	p := &s.parts[part]
	p.mu.RLock()
	defer p.mu.RUnlock()
	return string(p.find([]byte(id)))
}

// Len returns the number of texts of a part.
func (s *SharedSet) Len(part int) int {
	p := &s.parts[part]
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.n
}

// All returns an iterator over a snapshot of the IDs and texts of a part.
func (s *SharedSet) All(part int) iter.Seq2[string, string] {
	p := &s.parts[part]
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.all()
}

// find returns the amount that is assigned to a limit for the entries of its counter. It allocates
// only if the arguments have more than 512 bytes in total. If this version cannot parse the amount,
// find returns false.
func (s *SharedSet) find(domain string, entries []limiter.Entry, limit string) (amount uint64, assigned bool) {
	if s == nil || !s.assigned.Load() {
		return 0, false
	}
	var room [512]byte
	id := appendAssigned(room[:0], domain, entries, limit)
	p := &s.parts[PartOf(id)]
	p.mu.RLock()
	defer p.mu.RUnlock()
	text := p.find(id)
	if len(text) == 0 {
		return 0, false
	}
	number, _, _ := bytes.Cut(text, []byte{'\n'})
	return ParseAmount(string(number))
}

// limit returns the limit to apply in place of l. Parameter of is the level that l belongs to. An assigned
// amount replaces the amount of l, unless the request has sent l (see addOverride). An exception may then
// multiply the amount.
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

// withAmount returns l with an assigned amount, at most the maximum of rule, and a burst in proportion.
// The new limit has the same counter. If the algorithm cannot count the amount, withAmount returns l.
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

// AtMost returns the lower of amount and the maximum in the rule's field override, if there is one.
func AtMost(rule *descriptors.Rule, amount uint64) uint64 {
	if rule.Override != nil && rule.Override.Most > 0 {
		return min(amount, rule.Override.Most)
	}
	return amount
}

// WithAmount returns the limit that applies if amount is assigned to l, a limit of rule. It fails if
// the algorithm cannot count the amount.
func WithAmount(rule *descriptors.Rule, l *limiter.Limit, amount uint64) (*limiter.Limit, error) {
	if amount = AtMost(rule, amount); amount == Unlimited {
		s := l.Spec
		s.Unlimited = true
		return limiter.NewLimit(s)
	}
	like := descriptors.Override{Like: l, Series: l.Series}
	return like.NewLimit(amount, l.Unit, l.UnitMultiplier, false)
}

// Limit returns the limit to apply in place of l, a limit of rule, to requests without an override or an
// exception. entries are the entries in the key of l's counter. The result is l unless an amount is assigned.
func (s *SharedSet) Limit(rule *descriptors.Rule, domain string, entries []limiter.Entry, l *limiter.Limit) *limiter.Limit {
	if amount, assigned := s.find(domain, entries, l.Name); assigned {
		if limit, err := WithAmount(rule, l, amount); err == nil {
			return limit
		}
	}
	return l
}

// boundByAssigned bounds the override in key by the first amount that is assigned to a limit of m's
// rule. The override replaces the limits of that rule.
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
