package rls

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// match is what applies to one descriptor of a request.
type match struct {
	rule      *descriptors.Rule // nil: none, or an override
	limits    []*limiter.Limit  // of the rule, or the override; replaced ones included
	unlimited bool              // one of the limits admits everything
	// The hits of the limits that are counted are call.hits[first:end].
	first, end int
}

// counted tells whether any limit of the match is one that reaches the limiter.
func (m *match) counted() bool { return m.first < m.end }

// check finds what is wrong with a request, except for its overrides.
func (r *request) check() error {
	if r.domain == "" {
		return errors.New("the domain is empty")
	}
	if len(r.descriptors) == 0 {
		return errors.New("the request has no descriptors")
	}
	for i := range r.descriptors {
		for j, e := range r.descriptors[i].entries {
			if e.Key == "" {
				return fmt.Errorf("descriptor %d: the key of entry %d is empty", i, j)
			}
		}
	}
	return nil
}

// cost is how many units d asks for, or gives back.
func (r *request) cost(d *descriptor) uint64 {
	if d.hasHitsAddend {
		return d.hitsAddend
	}
	return uint64(max(r.hitsAddend, 1))
}

// match finds what applies to each descriptor of the request, and counts those
// that nothing applies to.
func (c *call) match(tree *descriptors.Tree, overrides *overrides) error {
	r := &c.request
	for i := range r.descriptors {
		d := &r.descriptors[i]
		var m match
		if d.hasLimit {
			var err error
			if m.limits, err = overrides.limits(tree.DomainLabel(r.domain), d.limit); err != nil {
				return fmt.Errorf("descriptor %d: limit: %w", i, err)
			}
		} else if m.rule = tree.Match(r.domain, d.entries); m.rule != nil {
			m.limits = m.rule.Limits
		}
		if m.rule == nil && m.limits == nil {
			c.unmatched++
		}
		c.noteReplaced(m.limits)
		c.matches = append(c.matches, m)
	}
	return nil
}

// noteReplaced collects the names of the limits that limits replace.
func (c *call) noteReplaced(limits []*limiter.Limit) {
	for _, l := range limits {
		for _, name := range l.Replaces {
			if !slices.Contains(c.replaced, name) {
				c.replaced = append(c.replaced, name)
			}
		}
	}
}

// isReplaced tells whether some limit of the request says that it replaces l,
// even if that one is replaced itself.
func (c *call) isReplaced(l *limiter.Limit) bool {
	return l.Name != "" && slices.Contains(c.replaced, l.Name)
}

// addHits makes a hit of every limit that is counted: neither unlimited, which
// cannot be replaced, nor replaced.
func (c *call) addHits(o *Options) {
	for i := range c.matches {
		m := &c.matches[i]
		d := &c.request.descriptors[i]
		labels := c.addLabels(m, d)
		m.first = len(c.hits)
		for _, l := range m.limits {
			switch {
			case l.Unlimited:
				m.unlimited = true
			case !c.isReplaced(l):
				c.addHit(o, m, d, l, labels)
			}
		}
		m.end = len(c.hits)
	}
	c.decisions = slices.Grow(c.decisions, len(c.hits))[:len(c.hits)]
}

// addLabels spells what metrics call the hits of d, nil if only the rules say it.
func (c *call) addLabels(m *match, d *descriptor) []byte {
	start := len(c.labels)
	if m.rule != nil {
		c.labels = m.rule.AppendLabels(c.labels, d.entries)
	}
	if len(c.labels) == start {
		return nil
	}
	return c.labels[start:len(c.labels):len(c.labels)]
}

// addKey spells the key of l's counter, from the second limit of a rule on with
// the help of the first one's.
func (c *call) addKey(keys limiter.Keys, m *match, d *descriptor, l *limiter.Limit) []byte {
	start, spelled := len(c.keys), false
	if m.first < len(c.hits) {
		c.keys, spelled = keys.AppendSibling(c.keys, c.hits[m.first].Key, l)
	}
	if !spelled {
		var patterns []string
		if m.rule != nil {
			patterns = m.rule.Patterns
		}
		c.keys = keys.Append(c.keys, c.request.domain, d.entries, patterns, l)
	}
	return c.keys[start:len(c.keys):len(c.keys)]
}

func (c *call) addHit(o *Options, m *match, d *descriptor, l *limiter.Limit, labels []byte) {
	c.hits = append(c.hits, limiter.Hit{
		Limit:  l,
		Key:    c.addKey(o.Keys, m, d, l),
		Cost:   c.request.cost(d),
		Refund: d.negativeHits,
		Always: d.chargedAlways(cmp.Or(l.Charge, o.Charge, limiter.Auto)),
		Mode:   o.decidingMode(l),
		Labels: labels,
	})
}

// chargedAlways tells whether the cost of d is written although it does not fit.
func (d *descriptor) chargedAlways(charge limiter.Charge) bool {
	if charge == limiter.Auto {
		// A descriptor that says how much it used tells of what has happened
		// already, such as the tokens of an answer.
		return d.hasHitsAddend && d.hitsAddend > 0
	}
	return charge == limiter.Always
}
