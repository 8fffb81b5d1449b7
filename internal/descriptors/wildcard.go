package descriptors

import "strings"

// wildcards are the children of one node and key that have values with a '*',
// which stands for any run of characters, also for none.
//
// They are found by the text before their first '*' and after their last one.
// So the cost of a search depends on how many different pairs of lengths these
// texts have, and not on how many wildcards there are; only wildcards that
// agree in both texts are tried one after the other.
type wildcards struct {
	shapes []shape        // by order
	known  map[shape]bool // shapes, without their order
	byEnds map[ends][]wildcard
}

// ends are the texts before the first and after the last '*' of a wildcard.
type ends struct{ prefix, suffix string }

// shape is a pair of lengths that ends of wildcards have.
type shape struct {
	prefix, suffix int
	order          int32 // of the first wildcard of this shape, see node
}

// wildcard is one of these children.
type wildcard struct {
	middle []string // texts between two '*', to be found one after the other
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

// find returns the first child in the order of the file that matches value and is
// not before from, or nil, also if too little work is left.
func (w *wildcards) find(value string, from int32, work *Work) *node {
	var best *node
	for _, s := range w.shapes {
		if best != nil && best.order < s.order {
			break // what follows comes later in the file
		}
		end := len(value) - s.suffix
		if end < s.prefix {
			continue
		}
		if !work.take(4 + (s.prefix+s.suffix)/16) { // of the look-up
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

// matches reports whether the part of a value between the ends holds the middle
// texts in their order. Taking each where it occurs first is enough: it leaves
// the most for those that follow.
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
