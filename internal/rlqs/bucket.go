package rlqs

import (
	"encoding/json"
	"slices"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// bucket is a limit for one bucket ID, and the Envoys of this server that share it.
type bucket struct {
	key   string
	rule  *descriptors.Rule
	limit *limiter.Limit // of rule

	members map[*member]struct{}
	resting []charge // of shares without a member, and of those before an interruption
	charged uint64   // tokens that Envoys may still use, at the last refresh or later
	pending []*member
	due     bool // Pool.due has the bucket
	hungry  bool // a member has less than its part of the limit

	share  uint64    // tokens that this server may assign
	until  time.Time // end of share
	asked  time.Time // when the limit was last divided, or zero
	others []string  // demands of other servers

	total, own cut    // of the limit among all Envoys, and of share among the members
	plus       uint64 // members with a token above the level of own
}

// charge is tokens that an Envoy may use before until.
type charge struct {
	tokens uint64
	until  time.Time
}

// member is a bucket of an Envoy.
type member struct {
	*bucket
	envoy *Envoy
	name  string            // in envoy.members
	id    []byte            // the bucket ID as the Envoy sent it
	tree  *descriptors.Tree // the rules in which bucket was found

	joined, reported time.Time
	usage, admitted  float64 // requests per second of the last report
	before, now      uint64  // demands of the last two reports, in tokens
	carried          uint64  // if above 0, the use of a share of an earlier stream
	waits, reports   bool    // pending has the member; for an answer to its report

	assigned uint64
	expires  time.Time
	charges  []charge // fewer tokens are charged longer
}

// rest returns the time in which an empty bucket of the limit fills. The tokens of an expired share
// stay charged for that time, because Envoy may have used all of them just before.
func rest(l *limiter.Limit) time.Duration {
	tokens, seconds := descriptors.Refill(l)
	return time.Duration(seconds) * time.Second / time.Duration(tokens)
}

// idle reports whether the last two reports had no requests.
func (m *member) idle() bool { return m.before == 0 && m.now == 0 }

// demand returns the tokens that the member asks for, rounded. It follows a small decrease, or the
// first idle report, one report later, because requests do not come evenly.
func (m *member) demand() uint64 {
	tokens := m.now
	if tokens == 0 || m.before <= tokens+tokens/4 {
		tokens = max(tokens, m.before)
	}
	return min(rounded(tokens), m.limit.Size())
}

// want returns the member's part of the limit.
func (m *member) want() uint64 { return m.total.share(m.demand(), true) }

// held returns the tokens that the Envoy may use by its shares that have not expired.
func (m *member) held(now time.Time) (tokens uint64) {
	for _, c := range m.charges {
		if c.until.After(now) {
			tokens = max(tokens, c.tokens)
		}
	}
	return tokens
}

// interrupt makes the charges of m independent of its next share. Envoy begins that share with full
// tokens, so the charges must not be part of it.
func (m *member) interrupt(now time.Time) {
	if tokens := m.held(now); tokens > 0 {
		m.resting = append(m.resting, charge{tokens, m.charges[len(m.charges)-1].until})
	}
	m.charges, m.assigned = nil, 0
}

// assign charges tokens until they have expired and rested.
func (m *member) assign(now time.Time, tokens uint64, lasts time.Duration) {
	before := m.held(now)
	m.charges = slices.DeleteFunc(m.charges, func(c charge) bool { return c.tokens <= tokens || !c.until.After(now) })
	m.assigned, m.expires = tokens, now.Add(lasts)
	if m.charges = append(m.charges, charge{tokens, m.expires.Add(rest(m.limit))}); tokens == 0 {
		m.charges = m.charges[:len(m.charges)-1]
	}
	m.charged += m.held(now) - before
}

// refresh removes expired charges, and divides the limit again by the demands of all Envoys. It
// returns the demands of the members.
func (b *bucket) refresh(now time.Time) demands {
	here, all, wants := demands{}, demands{}, demands{}
	b.resting = slices.DeleteFunc(b.resting, func(c charge) bool { return !c.until.After(now) })
	b.charged, b.plus, b.hungry = 0, 0, false
	for _, c := range b.resting {
		b.charged += c.tokens
	}
	for m := range b.members {
		b.charged += m.held(now)
		here[m.demand()]++
		all[m.demand()]++
	}
	for _, text := range b.others {
		var there demands
		_ = json.Unmarshal([]byte(text), &there) // of another version: no demands
		for tokens, envoys := range there {
			all[tokens] += envoys
		}
	}
	delete(here, 0)
	delete(all, 0)
	b.total = fair(b.limit.Size(), all)
	for m := range b.members {
		wants[m.want()]++
	}
	b.own = fair(b.share, wants)
	b.own.bonus = 0 // the rest of the share is a reserve
	for m := range b.members {
		if m.assigned > b.own.level {
			b.plus++
		}
		b.hungry = b.hungry || m.assigned < m.want()
	}
	return here
}

// next returns the tokens that m can have now.
func (m *member) next(now time.Time) uint64 {
	tokens := m.own.share(m.want(), m.assigned > m.own.level || m.plus < m.own.over)
	free := m.share - min(m.share, m.charged-m.held(now))
	return min(tokens, free)
}
