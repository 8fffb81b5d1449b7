package rls

import (
	"errors"
	"fmt"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// match is what applies to one descriptor of a request.
type match struct {
	rule  *descriptors.Rule // nil: none, or an override
	limit *limiter.Limit    // nil: none
	hit   int               // the limit's place in call.hits, if it is counted
}

// counted tells whether the match's limit is one that reaches the limiter.
func (m *match) counted() bool { return m.limit != nil && !m.limit.Unlimited }

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

// match finds what applies to each descriptor of the request.
func (c *call) match(tree *descriptors.Tree, overrides *overrides) error {
	r := &c.request
	for i := range r.descriptors {
		d := &r.descriptors[i]
		var m match
		if d.hasLimit {
			limit, err := overrides.limit(r.domain, d.limit)
			if err != nil {
				return fmt.Errorf("descriptor %d: limit: %w", i, err)
			}
			if tree.HasDomain(r.domain) {
				m.limit = limit
			}
		} else if m.rule = tree.Match(r.domain, d.entries); m.rule != nil {
			m.limit = m.rule.Limit
		}
		c.matches = append(c.matches, m)
	}
	c.dropReplaced()
	return nil
}

// dropReplaced takes out the limits whose name another limit of the request
// says it replaces, even if that one is replaced itself. Unlimited limits
// replace, but are not replaced.
func (c *call) dropReplaced() {
	for i := range c.matches {
		if l := c.matches[i].limit; l != nil {
			for _, name := range l.Replaces {
				if !slices.Contains(c.replaced, name) {
					c.replaced = append(c.replaced, name)
				}
			}
		}
	}
	for i := range c.matches {
		m := &c.matches[i]
		if m.counted() && m.limit.Name != "" && slices.Contains(c.replaced, m.limit.Name) {
			m.limit = nil
		}
	}
}

// addHits makes a hit of every match that is counted.
func (c *call) addHits(keys limiter.Keys) {
	for i := range c.matches {
		m := &c.matches[i]
		if !m.counted() {
			continue
		}
		d := &c.request.descriptors[i]
		var patterns []string
		if m.rule != nil {
			patterns = m.rule.Patterns
		}
		start := len(c.keys)
		c.keys = keys.Append(c.keys, c.request.domain, d.entries, patterns, m.limit)
		m.hit = len(c.hits)
		c.hits = append(c.hits, limiter.Hit{
			Limit:  m.limit,
			Key:    c.keys[start:len(c.keys):len(c.keys)],
			Cost:   c.request.cost(d),
			Refund: d.negativeHits,
			// A descriptor that says how much it used tells of what has
			// happened already, such as the tokens of an answer.
			Always: d.hasHitsAddend && d.hitsAddend > 0 && !d.negativeHits,
		})
	}
	c.decisions = slices.Grow(c.decisions, len(c.hits))[:len(c.hits)]
}
