package rlqs

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// bucket is a limit for all bucket IDs counted under one key, and the members on this server that share it.
type bucket struct {
	key     string
	rule    *descriptors.Rule
	limit   *limiter.Limit // of rule
	members map[*member]struct{}

	others []string  // demands of other servers, as JSON
	want   uint64    // tokens that the members should have
	share  uint64    // tokens that this server may assign
	until  time.Time // end of share
	local  time.Time // end of the shares that were assigned while the store failed; until then, other servers may have such shares, too

	charged uint64 // tokens that Envoys may still use, as of the last refresh or assignment
	cut            // division of share among the members
	plus    uint64 // number of members that have more tokens than level
}

// member is an Envoy's part in a bucket.
type member struct {
	*bucket
	envoy *Envoy            // nil if the member remains only for its charges
	name  string            // key in envoy.members
	id    []byte            // the bucket ID as the Envoy sent it
	tree  *descriptors.Tree // the rules in which bucket was found

	joined, reported time.Time
	usage, admitted  float64 // requests per second in the last report
	before, now      uint64  // demands of the last two reports, in tokens

	assigned uint64
	expires  time.Time
	charges  []charge // from the largest, which held returns, to the smallest, which ends last
}

// charge is a number of tokens that an Envoy may use until a time.
type charge struct {
	tokens uint64
	until  time.Time
}

// rest returns the time in which an empty bucket of the limit fills. The tokens of an expired share
// stay charged for that time, because Envoy may have used all of them just before the expiry.
func rest(l *limiter.Limit) time.Duration {
	tokens, seconds := descriptors.Refill(l)
	return time.Duration(seconds) * time.Second / time.Duration(tokens)
}

// rate returns the requests per second that a share admits.
func (b *bucket) rate(tokens uint64) float64 { return float64(tokens) / rest(b.limit).Seconds() }

// note sets the usage and the demand of the member from a report.
func (m *member) note(now time.Time, u *usage) {
	seconds := min(max(now.Sub(m.reported), reportEvery/2), reportEvery).Seconds()
	m.admitted = float64(min(u.allowed, maxRequests)) / seconds
	m.usage = m.admitted + float64(min(u.denied, maxRequests))/seconds
	m.before, m.now, m.reported = m.now, 0, now
	if m.usage > 0 { // 5 % more, because requests do not arrive evenly
		m.now = rounded(uint64(min(1.05*m.usage/m.rate(1), float64(m.limit.Size()))) + 1)
	}
}

// demand returns the tokens that the member asks for. One report without requests does not change it.
func (m *member) demand() uint64 { return min(cmp.Or(m.now, m.before), m.limit.Size()) }

// held returns the tokens that the Envoy may still use: its largest charge that has not ended.
func (m *member) held(now time.Time) (tokens uint64) {
	for _, c := range m.charges {
		if c.until.After(now) {
			tokens = max(tokens, c.tokens)
		}
	}
	return tokens
}

// interrupt makes the charges of m independent of its next share. Envoy begins that share with a full
// bucket, so the charges count in addition to the share.
func (m *member) interrupt() {
	if len(m.charges) > 0 {
		m.members[&member{bucket: m.bucket, charges: m.charges}] = struct{}{}
	}
	m.charges, m.assigned = nil, 0
}

// assign assigns tokens for the duration lasts, and charges them for that duration plus rest.
func (m *member) assign(now time.Time, tokens uint64, lasts time.Duration) {
	before := m.held(now)
	m.charges = slices.DeleteFunc(m.charges, func(c charge) bool { return c.tokens <= tokens || !c.until.After(now) })
	m.assigned, m.expires = tokens, now.Add(lasts)
	m.charges = append(m.charges, charge{tokens, m.expires.Add(rest(m.limit))})
	m.charged += m.held(now) - before
}

// giveUp shortens the charges of an abandoned bucket. They then last for answerDelay plus rest, at most.
func (m *member) giveUp(now time.Time) {
	until := now.Add(answerDelay + rest(m.limit))
	for i := range m.charges {
		if until.Before(m.charges[i].until) {
			m.charges[i].until = until
		}
	}
}

// refresh divides the share again according to the demands of the members, and returns these
// demands. It removes members that remain only for charges that have expired.
func (b *bucket) refresh(now time.Time) demands {
	here := demands{}
	b.charged, b.plus = 0, 0
	for m := range b.members {
		held := m.held(now)
		b.charged += held
		switch tokens := m.demand(); {
		case tokens > 0:
			here[tokens]++
		case m.envoy == nil && held == 0:
			delete(b.members, m)
		}
	}
	b.cut = fair(min(b.share, b.want), here, 0)
	for m := range b.members {
		if m.assigned > b.level {
			b.plus++
		}
	}
	return here
}

// ask returns the request to the store for a share for this server that lasts for the duration life.
func (b *bucket) ask(now time.Time, life time.Duration) limiter.ShareAsk {
	here := b.refresh(now)
	all := maps.Clone(here)
	for _, text := range b.others {
		var there demands
		_ = json.Unmarshal([]byte(text), &there) // a text of another version counts as no demands
		for tokens, envoys := range there {
			all[tokens] += envoys
		}
	}
	// The tokens beyond all demands are divided evenly among the Envoys and a reserve for the next Envoy.
	b.want = fair(b.limit.Size(), all, 1).sum(here)
	text, _ := json.Marshal(here) // cannot fail
	want := max(b.charged, b.want)
	if now.Before(b.local) {
		want = b.charged
	}
	return limiter.ShareAsk{
		Key: b.key, Size: b.limit.Size(), Held: b.charged, Want: want,
		Lasts: life + rest(b.limit), Demands: string(text),
	}
}

// target returns the tokens that m should have.
func (m *member) target() uint64 {
	return m.cut.share(m.demand(), m.assigned > m.level || m.plus < m.over)
}

// next returns the part of target that the charges of other members leave for m now.
func (m *member) next(now time.Time) uint64 {
	return min(m.target(), m.share-min(m.share, m.charged-m.held(now)))
}
