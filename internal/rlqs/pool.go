package rlqs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Options configure a Pool. Store, Failure and Servers matter only with a store.
type Options struct {
	Rules   func() *descriptors.Tree // the current rules, or nil if none are loaded
	Keys    limiter.Keys
	Life    time.Duration      // of a share that is not renewed
	Store   limiter.ShareStore // divides limits among servers; nil if this server has none beside it
	Failure limiter.FailureMode
	Servers func() int // number of servers on the store
	Logger  *slog.Logger
}

const (
	reportEvery = 5 * time.Second // interval of an Envoy's reports
	askEvery    = time.Second     // least interval between two asks for a bucket without a new member

	maxBuckets = 1000     // of a stream
	maxBytes   = 96 << 20 // of all members
	memberSize = 512      // bytes of a member without its ID, about
	maxID      = 1 << 10  // bytes of a bucket ID
)

// Pool divides the shares of this server. Its time is an argument.
type Pool struct {
	opts Options
	name string // of this server in the store
	wake chan struct{}
	warn rate.Sometimes

	mu       sync.Mutex
	began    time.Time
	swept    time.Time
	buckets  map[string]*bucket
	due      []*bucket
	envoys   map[*Envoy]struct{}
	bytes    int
	refused  uint64               // usages beyond a bound
	requests map[[2]string]totals // by domain and rule
}

// totals are requests that Envoys have reported.
type totals struct{ allowed, denied uint64 }

// NewPool returns an empty Pool.
func NewPool(now time.Time, opts Options) *Pool {
	return &Pool{
		opts: opts, began: now, name: rand.Text(), wake: make(chan struct{}, 1), warn: rate.Sometimes{Interval: time.Minute},
		buckets: map[string]*bucket{}, envoys: map[*Envoy]struct{}{}, requests: map[[2]string]totals{},
	}
}

// Envoy is a stream of an Envoy.
type Envoy struct {
	name    string      // its address
	answers chan answer // has room for one
	members map[string]*member
	ready   answer    // answers without a share
	stuck   time.Time // since when it has not read an answer, or zero
}

// NewEnvoy adds an Envoy, which is shown under a name.
func (p *Pool) NewEnvoy(name string) *Envoy {
	e := &Envoy{name: name, answers: make(chan answer, 1), members: map[string]*member{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.envoys[e] = struct{}{}
	return e
}

// Remove removes an Envoy. Its shares stay charged until they expire.
func (p *Pool) Remove(now time.Time, e *Envoy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range e.members {
		p.leave(now, m)
	}
	delete(p.envoys, e)
}

// Report notes the usages that an Envoy has reported. The next Round answers.
func (p *Pool) Report(now time.Time, e *Envoy, r *report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tree := p.opts.Rules()
	if tree == nil || !e.stuck.IsZero() && now.Sub(e.stuck) > askEvery { // who does not read needs no share
		return
	}
	for i := range r.usages {
		u := &r.usages[i]
		if len(u.id) > maxID {
			p.refused++
			continue
		}
		p.note(now, tree, e, r.domain, u)
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// note notes one usage.
func (p *Pool) note(now time.Time, tree *descriptors.Tree, e *Envoy, domain string, u *usage) {
	id := string(limiter.Keys{}.Append(nil, "", u.entries, nil))
	m := e.members[id]
	if m == nil || m.tree != tree {
		if m = p.join(now, tree, e, domain, id, u); m == nil {
			return
		}
	}
	requests := u.allowed + u.denied
	if requests < u.denied || requests > 1<<50 {
		requests = 1 << 50 // a lie
	}
	elapsed := reportEvery
	if !m.reported.IsZero() {
		elapsed = max(now.Sub(m.reported), reportEvery/2)
	}
	tokens, seconds := descriptors.Refill(m.limit)
	m.usage, m.admitted = float64(requests)/elapsed.Seconds(), float64(u.allowed)/elapsed.Seconds()
	// A twentieth more, because requests do not come evenly.
	need := uint64(min(1.05*m.usage*float64(seconds)/float64(tokens), float64(m.limit.Size()))) + 1
	if m.before, m.now = m.now, need; requests == 0 {
		m.now = 0
	}
	if m.reported.IsZero() && u.allowed > 1 {
		m.carried = u.allowed
	}
	m.reported = now
	l := m.limit.Series.Labels()
	rule := [2]string{l.Domain, l.Rule}
	t := p.requests[rule]
	p.requests[rule] = totals{t.allowed + min(u.allowed, 1<<50), t.denied + min(u.denied, 1<<50)}
	m.reports = true
	p.wait(m)
}

// wait has the next Round answer m.
func (p *Pool) wait(m *member) {
	if !m.waits {
		m.waits, m.pending = true, append(m.pending, m)
	}
	p.isDue(m.bucket)
}

func (p *Pool) isDue(b *bucket) {
	if !b.due {
		b.due = true
		p.due = append(p.due, b)
	}
}

// join returns the member of an Envoy for a bucket ID by the rules of tree. If no rule has
// quota_service for it, Envoy may admit everything, and join returns nil. It also returns nil if the
// Envoy or the pool has too many.
func (p *Pool) join(now time.Time, tree *descriptors.Tree, e *Envoy, domain, id string, u *usage) *member {
	rule, entries := tree.MatchBucket(domain, u.entries)
	m := e.members[id]
	var key string
	if rule != nil {
		bytes := p.opts.Keys.Append(nil, domain, rule.Counted(entries), rule.Patterns)
		key = string(rule.Limits[0].AppendShareKind(bytes))
	}
	if m != nil && rule != nil && key == m.key {
		m.tree, m.rule, m.limit = tree, rule, rule.Limits[0]
		return m
	}
	if m != nil {
		p.leave(now, m)
	}
	if rule == nil {
		p.warn.Do(func() {
			p.opts.Logger.Warn("an Envoy may admit everything for a bucket ID to which no rule with quota_service leads", "domain", domain, "bucket_id", spell(u.entries))
		})
		if len(e.ready) == 0 || len(e.answers) == 0 {
			e.ready.blanket(u.id, allowAll, p.opts.Life)
		}
		return nil
	}
	if len(e.members) == maxBuckets || p.bytes+len(id)+memberSize > maxBytes {
		p.refused++
		return nil
	}
	b := p.buckets[key]
	if b == nil {
		b = &bucket{key: key, members: map[*member]struct{}{}}
		p.buckets[key] = b
	}
	b.rule, b.limit = rule, rule.Limits[0]
	m = &member{bucket: b, envoy: e, name: id, tree: tree, id: slices.Clone(u.id), joined: now}
	p.bytes += len(id) + memberSize
	b.members[m], e.members[id] = struct{}{}, m
	return m
}

// leave removes a member, whose share stays charged.
func (p *Pool) leave(now time.Time, m *member) {
	m.interrupt(now)
	delete(m.members, m)
	delete(m.envoy.members, m.name)
	if m.waits {
		m.pending = slices.DeleteFunc(m.pending, func(other *member) bool { return other == m })
	}
	p.bytes -= len(m.name) + memberSize
	p.isDue(m.bucket)
}

// Round divides the buckets that Envoys have reported, with the store if there is one, and answers
// these reports. Only one call may run at a time. now returns the time.
func (p *Pool) Round(ctx context.Context, now func() time.Time) {
	p.mu.Lock()
	at := now()
	if at.Sub(p.swept) >= askEvery {
		p.swept = at
		p.sweep(at)
	}
	due := p.due
	p.due = nil
	var asks []limiter.ShareAsk
	var asking []*bucket
	for _, b := range due {
		b.due = false
		isNew := func(m *member) bool { return m.expires.IsZero() }
		if len(b.members) > 0 && at.Sub(b.asked) < askEvery && !slices.ContainsFunc(b.pending, isNew) {
			continue // as it was divided
		}
		b.asked = at
		if p.opts.Store == nil {
			b.share, b.until = 0, at.Add(p.opts.Life)
			if at.Sub(p.began) >= p.opts.Life+rest(b.limit) { // the shares of an earlier server have expired
				b.share = b.limit.Size()
			}
			b.refresh(at)
			continue
		}
		here := b.refresh(at)
		text, _ := json.Marshal(here) // cannot fail
		asks = append(asks, limiter.ShareAsk{
			Key: b.key, Size: b.limit.Size(), Held: b.charged, Want: max(b.charged, b.total.sum(here)),
			Lasts: p.opts.Life + rest(b.limit), Demands: string(text),
		})
		asking = append(asking, b)
	}
	p.mu.Unlock()
	if len(asks) > 0 {
		p.opts.Store.Share(ctx, p.name, asks)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, b := range asking {
		b.granted(&asks[i], at, at.Add(p.opts.Life))
	}
	at = now()
	answers := map[*Envoy]answer{}
	for _, b := range due {
		p.answer(b, at, answers)
	}
	for e := range p.envoys {
		switch {
		case len(e.answers) == 0:
			e.stuck = time.Time{}
			if a := append(answers[e], e.ready...); len(a) > 0 {
				e.answers <- a // has room, because only Round sends
			}
			e.ready = nil
		case e.stuck.IsZero():
			e.stuck = at
		}
	}
}

// granted notes the answer of the store to an ask made at a time.
func (b *bucket) granted(a *limiter.ShareAsk, now, until time.Time) {
	if a.Err != nil {
		b.share = min(b.share, a.Want) // the store may have lowered it
	} else {
		b.share, b.until, b.others = a.Granted, until, a.Others
	}
	b.refresh(now)
}

// answer adds answers to the pending members of b.
func (p *Pool) answer(b *bucket, now time.Time, answers map[*Envoy]answer) {
	failure := limiter.FailureByDefault
	lasts := min(p.opts.Life, b.until.Sub(now))
	if lasts < askEvery { // the store fails for longer than a share lives
		lasts, failure = p.opts.Life, b.limit.FailureMode
		if failure == limiter.FailureByDefault {
			failure = p.opts.Failure
		}
		if failure == limiter.FailureLocal && now.Sub(b.until) >= rest(b.limit) {
			b.share = b.limit.Size() / uint64(max(p.opts.Servers(), 1))
			b.refresh(now)
		}
	}
	pending := b.pending
	b.pending = nil
	for _, m := range pending {
		m.waits = false
		if len(m.envoy.answers) > 0 { // it has not read the last answer
			p.wait(m)
			continue
		}
		a := answers[m.envoy]
		switch {
		case m.idle():
			a.abandon(m.id)
			p.leave(now, m)
		case failure == limiter.FailureError, failure == limiter.FailureLocal && now.Sub(b.until) < rest(b.limit):
		case failure == limiter.FailureAllow:
			a.blanket(m.id, allowAll, lasts)
		case failure == limiter.FailureDeny:
			a.blanket(m.id, denyAll, lasts)
		default:
			m.renew(now, lasts, p.opts.Life, &a)
		}
		m.reports = false
		answers[m.envoy] = a
	}
}

// renew assigns the next share of m.
func (m *member) renew(now time.Time, lasts, life time.Duration, a *answer) {
	if m.assigned > 0 && now.After(m.expires.Add(-time.Second)) { // it may have expired before this answer arrives
		m.interrupt(now)
	}
	tokens := m.next(now)
	switch fill, seconds := descriptors.Refill(m.limit); {
	case !m.reports && tokens <= m.assigned: // nothing new
	case tokens < m.carried && m.expires.IsZero() && now.Sub(m.joined) < life:
		// It uses the share of an earlier stream, which is charged, until that expires.
	case tokens == 0:
		m.interrupt(now)
		m.expires = now.Add(lasts)
		a.blanket(m.id, denyAll, lasts)
	default:
		m.assign(now, tokens, lasts)
		a.share(m.id, tokens, tokens*fill, seconds, lasts)
	}
}

// sweep removes members that have been silent for the life of a share, and has buckets divided again
// whose members lack tokens.
func (p *Pool) sweep(now time.Time) {
	for e := range p.envoys {
		for _, m := range e.members {
			if now.Sub(m.reported) > p.opts.Life {
				p.leave(now, m)
			}
		}
	}
	for key, b := range p.buckets {
		if b.hungry {
			for m := range b.members {
				if m.assigned < m.want() {
					p.wait(m)
				}
			}
		}
		b.resting = slices.DeleteFunc(b.resting, func(c charge) bool { return !c.until.After(now) })
		if len(b.members) == 0 && !b.due && len(b.resting) == 0 {
			delete(p.buckets, key)
		}
	}
}

func spell(entries []limiter.Entry) (texts []string) {
	for _, e := range entries {
		texts = append(texts, descriptors.Spell(e))
	}
	return texts
}
