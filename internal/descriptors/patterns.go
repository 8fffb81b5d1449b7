package descriptors

import (
	"iter"
	"strings"

	"github.com/gaissmai/bart"
)

// patterns are the children of one node and key that stand for values which are not
// listed: networks, and wildcards and regular expressions together in the order of
// the files.
type patterns struct {
	networks  *bart.Table[*node] // nil if there are none, as a table takes some memory
	wildcards wildcards
	regexes   []*regex
	count     int32 // children with wildcards and regular expressions
	steps     int   // of the regular expressions
	whole     *node // the first that matches every value, so that none after it is reached
	last      *node // of wildcards and regular expressions
	tooLong   *node // for a value that takes too much work
	compared  Work  // left for comparing wildcards with each other, see isHidden
}

// find returns the child that a value leads to, or nil: the one with the longest
// prefix if the value is an address, else the first in the order of the files, else
// tooLong if too little work is left to know.
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

// findText returns the first wildcard or regular expression in the order of the
// files that matches value and is not before from, or nil, also if too little work is left.
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

// all yields what find would return if what it yielded before were not there. It
// may yield one child several times. It ends when too little work is left.
func (p *patterns) all(value string, work *Work) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		if address, ok := parseAddress(value); ok && p.networks != nil {
			for _, child := range p.networks.Supernets(host(address)) {
				if !yield(child) {
					return
				}
			}
		}
		for child := p.findText(value, 0, work); child != nil; child = p.findText(value, child.order+1, work) {
			if !yield(child) {
				return
			}
		}
	}
}

// addWildcard lets a wildcard lead to child, whose list may have several.
func (p *patterns) addWildcard(child *node, text string) {
	p.order(child, strings.Trim(text, "*") == "")
	p.wildcards.add(child, text)
}

// order notes which place child, the last in the file so far, has among these children,
// and whether it matches every value.
func (p *patterns) order(child *node, matchesAll bool) {
	if p.last != child {
		child.order, p.last = p.count, child
		p.count++
	}
	if matchesAll {
		child.matchesAll = true
		if p.whole == nil {
			p.whole = child
		}
	}
}

// sameRegex returns the child of the same regular expression, or nil.
func (p *patterns) sameRegex(text string) *node {
	for _, r := range p.regexes {
		if r.child.entry.Value == text {
			return r.child
		}
	}
	return nil
}
