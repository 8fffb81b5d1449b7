package plan

import (
	"crypto/sha256"
	"fmt"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// nameHold sets the name of the hold of m from the entry at place entry, and takes that entry
// out of m's entries, so that it is in no key. rule, or one above it, has limits in flight.
func (p *Result) nameHold(m *match, rule *descriptors.Rule, entry int) error {
	if entry < 0 || m.entries[entry].Value == "" {
		return fmt.Errorf("rule %[2]s needs an entry %[1]q with a value that names the request in flight", rule.Hold, rule)
	}
	value := m.entries[entry].Value
	start := len(p.holds)
	p.holds = append(p.holds, value...) // only to hash it without allocating
	digest := sha256.Sum256(p.holds[start:])
	p.holds = append(p.holds[:start], digest[:limiter.HoldSize]...)
	m.hold = p.holds[start:len(p.holds):len(p.holds)]

	first := len(p.entries)
	p.entries = append(append(p.entries, m.entries[:entry]...), m.entries[entry+1:]...)
	m.entries = p.entries[first:len(p.entries):len(p.entries)]
	return nil
}
