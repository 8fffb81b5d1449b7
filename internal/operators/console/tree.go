package console

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"weir/internal/descriptors/plaintext"
)

// branch is a domain, or a key and value below one, with what is below that.
type branch struct {
	ID       string // of the element of the page, the same each time
	Name     string
	Rule     *Rule // nil: there is none here
	Link     asked // the descriptor of Rule
	Below    []*branch
	Sum      Rate // of the rule and of what is below
	Open     bool
	HasRates bool
}

// growTree joins rules to trees, one for each domain.
func growTree(rules Rules) []*branch {
	root := &branch{}
	byID := map[string]*branch{}
	for i := range rules.Rules {
		r := &rules.Rules[i]
		at := root
		for j, word := range r.Words {
			at.Sum.Asked, at.Sum.Over = at.Sum.Asked+r.Asked, at.Sum.Over+r.Over
			id := idOf(r.Words[:j+1])
			next := byID[id]
			if next == nil {
				next = &branch{ID: id, Name: plaintext.Line(word), HasRates: rules.Over > 0}
				// A small tree is shown whole, a large one as far as it is busy.
				next.Open = len(rules.Rules) <= openRules || j == 0
				byID[id], at.Below = next, append(at.Below, next)
			}
			at = next
		}
		at.Sum.Asked, at.Sum.Over = at.Sum.Asked+r.Asked, at.Sum.Over+r.Over
		at.Rule, at.Link = r, spell(r.Domain, r.Entries)
	}
	return root.Below
}

// openRules is how many rules are shown without a click.
const openRules = 30

func idOf(words []string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return "rule-" + hex.EncodeToString(sum[:8])
}
