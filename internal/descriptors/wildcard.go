package descriptors

import "strings"

// wildcards has the children of one node and key whose values contain a '*'. A '*' matches any
// sequence of characters, even an empty one.
//
// A wildcard is found by its texts before the first '*' and after the last '*'. So the cost of a
// search depends on the number of distinct pairs of lengths of these texts, not on the number of
// wildcards. Only wildcards with both texts in common are tried one after the other.
type wildcards struct {
	shapes []shape        // sorted by order
	known  map[shape]bool // shapes without their order
	byEnds map[ends][]wildcard
}

// ends are a wildcard's texts before the first and after the last '*'.
type ends struct{ prefix, suffix string }

// shape is the pair of lengths of a wildcard's ends.
type shape struct {
	prefix, suffix int
	order          int32 // node.order of the first wildcard of this shape
}

type wildcard struct {
	middle []string // texts between two '*', in order
	child  *node
}

func isWildcard(value string) bool { return strings.Contains(value, "*") }

func (w *wildcards) add(child *node, text string) {
	if w.known == nil {
		w.known, w.byEnds = make(map[shape]bool), make(map[ends][]wildcard)
	}
	texts := strings.Split(text, "*")
	last := len(texts) - 1
	e := ends{texts[0], texts[last]}
	w.byEnds[e] = append(w.byEnds[e], wildcard{texts[1:last], child})
	s := shape{prefix: len(e.prefix), suffix: len(e.suffix)}
	if !w.known[s] {
		w.known[s] = true
		s.order = child.order
		w.shapes = append(w.shapes, s)
	}
}

// find returns the first child in the order of the files that matches value, ignoring children
// whose order is less than from. It returns nil if there is none, or if too little work is left.
func (w *wildcards) find(value string, from int32, work *Work) *node {
	var best *node
	for _, s := range w.shapes {
		if best != nil && best.order < s.order {
			break // all remaining wildcards come later in the files
		}
		end := len(value) - s.suffix
		if end < s.prefix {
			continue
		}
		if !work.take(4 + (s.prefix+s.suffix)/16) { // the cost of the look-up
			return nil
		}
		same := w.byEnds[ends{value[:s.prefix], value[end:]}]
		for i := range same {
			c := &same[i]
			if best != nil && best.order < c.child.order {
				break
			}
			if !work.take(1) {
				return nil
			}
			if c.child.order >= from && c.matches(value[s.prefix:end], work) {
				best = c.child
				break
			}
		}
	}
	if *work < 0 {
		return nil
	}
	return best
}

// matches reports whether rest, the value between the ends, contains the middle texts in their
// order. The first occurrence of each text leaves the longest rest for the other texts.
func (c *wildcard) matches(rest string, work *Work) bool {
	for _, text := range c.middle {
		if !work.scan(rest) {
			return false
		}
		i := strings.Index(rest, text)
		if i < 0 {
			return false
		}
		rest = rest[i+len(text):]
	}
	return true
}
