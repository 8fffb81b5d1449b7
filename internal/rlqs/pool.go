package rlqs

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Options configure a Pool. Failure and Servers matter only with a Store.
type Options struct {
	Rules   func() *descriptors.Tree // the current rules, or nil if none are loaded
	Keys    limiter.Keys
	Life    time.Duration      // lifetime of a share that is not renewed
	Store   limiter.ShareStore // divides limits among servers, or nil if this server has the whole of each limit
	Failure limiter.FailureMode
	Servers func() int // number of servers that share Store; called only if Store fails
	Logger  *slog.Logger
}

const (
	reportEvery = 5 * time.Second // interval of an Envoy's reports
	sweepEvery  = time.Second
	answerDelay = time.Second // maximum time until Envoy has read an answer

	maxRequests = 1 << 50  // maximum number in a report; a larger number must be wrong
	maxBuckets  = 1000     // maximum number of a stream's members
	fairBuckets = 100      // the same while more than half of maxBytes is used, so that a few streams cannot use all of it
	maxBytes    = 96 << 20 // maximum bytes of all members
	memberSize  = 512      // approximate bytes of a member without its ID
	maxID       = 1 << 10  // maximum bytes of a bucket ID
	maxAnswer   = 1 << 20  // bytes of an answer after which it gets no more actions for bucket IDs without a rule
)

// Pool divides the shares of this server among Envoys. Its methods take the current time.
type Pool struct {
	opts Options
	name string // of this server in the store
	wake chan struct{}

	warn, warnRefused rate.Sometimes

	mu        sync.Mutex
	began     time.Time
	swept     time.Time
	envoys    map[*Envoy]struct{}
	buckets   map[string]*bucket
	due       map[*bucket]struct{} // buckets to divide in the next round
	pending   map[*member]struct{} // members to answer in the next round
	bytes     int
	refused   uint64 // number of usages that were beyond a bound
	unmatched uint64 // number of usages without a rule
}

// NewPool returns an empty Pool.
func NewPool(now time.Time, opts Options) *Pool {
	return &Pool{
		opts: opts, began: now, name: rand.Text(), wake: make(chan struct{}, 1), envoys: map[*Envoy]struct{}{},
		warn: rate.Sometimes{Interval: time.Minute}, warnRefused: rate.Sometimes{Interval: time.Minute},
		buckets: map[string]*bucket{}, due: map[*bucket]struct{}{}, pending: map[*member]struct{}{},
	}
}

// Envoy is the stream from an Envoy to this server.
type Envoy struct {
	name    string // address of the Envoy
	members map[string]*member
	next    answer      // to be sent at the end of a round
	answers chan answer // has room for one answer
}

// NewEnvoy adds an Envoy. Operators see it under the given name.
func (p *Pool) NewEnvoy(name string) *Envoy {
	e := &Envoy{name: name, answers: make(chan answer, 1), members: map[string]*member{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.envoys[e] = struct{}{}
	return e
}

// Remove removes an Envoy, and closes the channel of its answers. Its charges remain until they end.
func (p *Pool) Remove(e *Envoy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range e.members {
		p.leave(m)
	}
	delete(p.envoys, e)
	close(e.answers)
}

// Report notes the usages that an Envoy has reported. The next Round answers the report. Report
// ignores reports of an Envoy that has not yet read its last answer, and reports before rules are loaded.
func (p *Pool) Report(now time.Time, e *Envoy, r *report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tree := p.opts.Rules()
	if tree == nil || len(e.answers) > 0 {
		return
	}
	for i := range r.usages {
		u := &r.usages[i]
		if len(u.id) > maxID {
			p.refuse(e, r.domain)
		} else if m := p.member(now, tree, e, r.domain, u); m != nil {
			m.note(now, u)
			p.pending[m], p.due[m.bucket] = struct{}{}, struct{}{}
		}
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// member returns the Envoy's member for the bucket ID of u by the rules of tree, and adds it if it
// is missing. If the ID leads to no rule with quota_service, member lets the Envoy admit
// everything, and returns nil. It also returns nil if the Envoy or the pool has too many members.
func (p *Pool) member(now time.Time, tree *descriptors.Tree, e *Envoy, domain string, u *usage) *member {
	id := string(limiter.Keys{}.Append(nil, "", u.entries, nil))
	m := e.members[id]
	if m != nil && m.tree == tree {
		return m
	}
	rule, entries := tree.MatchBucket(domain, u.entries)
	var key string
	if rule != nil {
		bytes := p.opts.Keys.Append(nil, domain, rule.Counted(entries), rule.Patterns)
		key = string(rule.Limits[0].AppendShareKind(bytes))
	}
	if m != nil && m.key != key {
		p.leave(m)
		m = nil
	}
	switch {
	case rule == nil:
		p.unmatched++
		p.warn.Do(func() {
			p.opts.Logger.Warn("an Envoy may admit everything for a bucket ID to which no rule with quota_service leads", "domain", fmt.Sprintf("%.128s", domain), "bucket", string(p.opts.Keys.Append(nil, domain, u.entries, nil)))
		})
		if len(e.next) < maxAnswer {
			e.next.blanket(u.id, allowAll, p.opts.Life)
		}
		return nil
	case m != nil: // known from earlier rules
	case len(e.members) == maxBuckets, p.bytes+len(id)+memberSize > maxBytes, p.bytes > maxBytes/2 && len(e.members) >= fairBuckets:
		p.refuse(e, domain)
		return nil
	default:
		b := p.buckets[key]
		if b == nil {
			b = &bucket{key: key, members: map[*member]struct{}{}}
			p.buckets[key] = b
		}
		m = &member{bucket: b, envoy: e, name: id, id: slices.Clone(u.id), joined: now}
		b.members[m], e.members[id] = struct{}{}, m
		p.bytes += len(id) + memberSize
	}
	m.tree, m.rule, m.limit = tree, rule, rule.Limits[0]
	return m
}

// refuse counts and logs a usage that gets no share because of a bound.
func (p *Pool) refuse(e *Envoy, domain string) {
	p.refused++
	p.warnRefused.Do(func() {
		p.opts.Logger.Warn("buckets of an Envoy get no share, because it has too many, all Envoys together have, or a bucket ID is too large",
			"envoy", e.name, "domain", fmt.Sprintf("%.128s", domain), "buckets", len(e.members), "refused", p.refused)
	})
}

// leave removes a member from its Envoy. The member remains in its bucket while it has charges.
func (p *Pool) leave(m *member) {
	delete(m.envoy.members, m.name)
	p.bytes -= len(m.name) + memberSize
	m.envoy, m.usage, m.assigned, m.before, m.now = nil, 0, 0, 0, 0
	p.due[m.bucket] = struct{}{}
}

// Round divides the buckets that Envoys have reported, with the store if there is one, and answers
// these reports. Only one call may run at a time. The function now returns the time.
func (p *Pool) Round(ctx context.Context, now func() time.Time) {
	p.mu.Lock()
	asked := now()
	if asked.Sub(p.swept) >= sweepEvery {
		p.swept = asked
		p.sweep(asked)
	}
	var asks []limiter.ShareAsk
	var due []*bucket
	for b := range p.due {
		asks, due = append(asks, b.ask(asked, p.opts.Life)), append(due, b)
	}
	pending := p.pending
	p.due, p.pending = map[*bucket]struct{}{}, map[*member]struct{}{}
	p.mu.Unlock()
	p.divide(ctx, asked, asks)
	p.mu.Lock()
	defer p.mu.Unlock()
	at := now()
	for i, b := range due {
		p.granted(b, &asks[i], asked)
		for m := range b.members {
			if m.envoy != nil && m.next(at) > m.assigned {
				pending[m] = struct{}{}
			}
		}
	}
	for m := range pending {
		if m.envoy != nil && len(m.envoy.answers) == 0 {
			p.answer(m, at)
		}
	}
	for e := range p.envoys {
		if len(e.next) > 0 && len(e.answers) == 0 {
			e.answers <- e.next // has room, because only Round sends
			e.next = nil
		}
	}
}

// divide asks the store. Without a store, this server gets the tokens that it wants, but none until
// shares from before its start have expired.
func (p *Pool) divide(ctx context.Context, now time.Time, asks []limiter.ShareAsk) {
	if p.opts.Store != nil {
		p.opts.Store.Share(ctx, p.name, asks)
		return
	}
	for i := range asks {
		if a := &asks[i]; now.Sub(p.began) >= a.Lasts {
			a.Granted = a.Want
		}
	}
}

// granted records the store's answer for b, which was requested at the time asked.
func (p *Pool) granted(b *bucket, a *limiter.ShareAsk, asked time.Time) {
	switch {
	case a.Err == nil:
		b.share, b.until, b.others = a.Granted, asked.Add(p.opts.Life), a.Others
	case p.failure(b) == limiter.FailureLocal && asked.Sub(b.until) >= rest(b.limit):
		b.share, b.local = b.limit.Size()/uint64(p.opts.Servers()), asked.Add(a.Lasts)
	default:
		b.share = min(b.share, a.Want) // a call that fails may have lowered the share in the store
	}
	b.refresh(asked)
}

// failure returns the failure mode of a bucket.
func (p *Pool) failure(b *bucket) limiter.FailureMode {
	return cmp.Or(b.limit.FailureMode, p.opts.Failure)
}

// answer answers m with its next share or, if the store has failed for too long, by the failure mode.
func (p *Pool) answer(m *member, now time.Time) {
	failure, lasts := limiter.FailureByDefault, min(p.opts.Life, m.until.Sub(now))
	if lasts < time.Second { // the store has failed for longer than a share lasts
		failure, lasts = p.failure(m.bucket), p.opts.Life
	}
	a := &m.envoy.next
	switch {
	case m.demand() == 0:
		a.abandon(m.id)
		m.giveUp(now)
		p.leave(m)
	case failure == limiter.FailureError, failure == limiter.FailureLocal && now.Sub(m.until) < rest(m.limit):
	case failure == limiter.FailureAllow:
		a.blanket(m.id, allowAll, lasts)
	case failure == limiter.FailureDeny:
		a.blanket(m.id, denyAll, lasts)
	default:
		m.renew(now, lasts, p.opts.Life, a)
	}
}

// renew assigns the next share of m.
func (m *member) renew(now time.Time, lasts, life time.Duration, a *answer) {
	if m.assigned > 0 && now.After(m.expires.Add(-time.Second)) { // the last share may expire before this answer arrives
		m.interrupt()
	}
	tokens := m.next(now)
	switch {
	case m.expires.IsZero() && m.rate(tokens) < m.admitted && now.Sub(m.joined) < life:
		// Envoy still uses the share of an earlier stream, which stays charged until it expires.
	case tokens == 0:
		m.interrupt()
		m.expires = now.Add(lasts)
		a.blanket(m.id, denyAll, lasts)
	default:
		m.assign(now, tokens, lasts)
		fill, seconds := descriptors.Refill(m.limit)
		a.share(m.id, tokens, tokens*fill, seconds, lasts)
	}
}

// sweep removes members that have not reported for the life of a share, and empty buckets. A bucket
// is divided again if a member lacks tokens, or if the share differs from the tokens that this
// server wants, because this server or another may wait for more tokens.
func (p *Pool) sweep(now time.Time) {
	for e := range p.envoys {
		for _, m := range e.members {
			if now.Sub(m.reported) > p.opts.Life {
				p.leave(m)
			}
		}
	}
	for key, b := range p.buckets {
		b.refresh(now)
		if _, due := p.due[b]; !due && len(b.members) == 0 {
			delete(p.buckets, key)
		}
		for m := range b.members {
			if m.envoy != nil && (m.target() > m.assigned || b.share != b.want) {
				p.due[b] = struct{}{}
				break
			}
		}
	}
}
