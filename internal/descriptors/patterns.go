package descriptors

import (
	"strings"

	"github.com/gaissmai/bart"
)

// patterns has the children of one node and key that have networks, wildcards or regular
// expressions. A value that is not an address in a network leads to the first
// matching wildcard or regular expression in the order of the files.
type patterns struct {
	networks  *bart.Table[*node] // nil without networks, because even an empty table takes memory
	wildcards wildcards
	regexes   []*regex
	count     int32 // number of children with wildcards or regular expressions
	steps     int   // steps of all regular expressions
	catchAll  *node // first child that matches every value and so hides later children, or nil
	last      *node // last child with a wildcard or regular expression
	tooLong   *node // node for values that take too much work
	shadowed  *node // replaces tooLong if no other rule that could apply denies, see shadowTooLong
	compared  Work  // remaining work for comparing wildcards with each other, see isHidden
}

// find returns the child to which a value leads, or nil. If the value is an address in networks,
// find returns the child whose network has the longest prefix. Otherwise it returns the first child
// in the order of the files that matches. If too little work is left, find returns tooLong.
func (p *patterns) find(value string, work *Work) *node {
	if p.networks != nil {
		if address, ok := parseAddress(value); ok {
			if child, found := p.networks.Lookup(address); found {
				return child
			}
		}
	}
	if p.count == 0 {
		return nil
	}
	child := p.findText(value, 0, work)
	if *work < 0 {
		return p.tooLong
	}
	return child
}

// findText returns the first child with a matching wildcard or regular expression, ignoring children
// whose order is less than from. It returns nil if there is none, or if too little work is left.
func (p *patterns) findText(value string, from int32, work *Work) *node {
	best := p.wildcards.find(value, from, work)
	for _, r := range p.regexes {
		if best != nil && best.order < r.child.order {
			break
		}
		if r.child.order >= from && r.matches(value, work) {
			return r.child
		}
	}
	if *work < 0 {
		return nil
	}
	return best
}

// all yields the result of find, then the result without that child, and so on. It may repeat a child.
// If yield returns false, all stops and returns false. It also stops when too little work is left.
func (p *patterns) all(value string, work *Work, yield func(*node) bool) (goOn bool) {
	if address, ok := parseAddress(value); ok && p.networks != nil {
		for _, child := range p.networks.Supernets(host(address)) {
			if !yield(child) {
				return false
			}
		}
	}
	child := p.findText(value, 0, work)
	for child != nil && yield(child) {
		child = p.findText(value, child.order+1, work)
	}
	return child == nil
}

// addWildcard makes a wildcard lead to child. A child with a list may have several wildcards.
func (p *patterns) addWildcard(child *node, text string) {
	p.order(child, strings.Trim(text, "*") == "")
	p.wildcards.add(child, text)
}

// order records that child is the last child so far, and whether it matches every value.
func (p *patterns) order(child *node, matchesAll bool) {
	if p.last != child {
		child.order, p.last = p.count, child
		p.count++
	}
	if matchesAll {
		child.matchesAll = true
		if p.catchAll == nil {
			p.catchAll = child
		}
	}
}

func (p *patterns) sameRegex(text string) *node {
	for _, r := range p.regexes {
		if r.child.entry.Value == text {
			return r.child
		}
	}
	return nil
}
