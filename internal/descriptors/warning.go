package descriptors

import (
	"fmt"
	"net/netip"
	"strings"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// Warnings tell, sorted by place, what the rules allow and hardly mean: the
// reference takes it without a word, so it is no Problem.
func (t *Tree) Warnings() Problems { return t.warnings }

// mention is a name in the replaces of a limit, with its domain, and where that is.
type mention struct {
	name  limiter.Entry
	place Problem // without message
}

func (l *loader) warn(place Problem, format string, args ...any) {
	place.Message = fmt.Sprintf(format, args...)
	l.tree.warnings = append(l.tree.warnings, place)
}

// warnOfDomains warns of what all documents of a domain lack.
func (l *loader) warnOfDomains() {
	for name, root := range l.tree.domains {
		if len(root.children) == 0 && root.keyless == nil {
			place := root.place()
			place.Path = "domain"
			l.warn(place, "the domain %q has no rules, everything is admitted", name)
		}
	}
	for _, m := range l.replaced {
		if !l.names[m.name] {
			l.warn(m.place, "no limit of the domain %q has the name %q, so nothing is replaced", m.name.Key, m.name.Value)
		}
	}
}

// isHidden reports whether an earlier wildcard or regular expression with the same key
// leaves a wildcard or a regular expression of n nothing to match, and warns of it. An
// earlier wildcard does so if it matches the very text of a wildcard: a '*' in that
// text then lies where any run of characters may. What else a regular expression leaves
// is not known, nor what comes after more wildcards than can be compared: each with each
// would take the square of their number.
func (d *decoder) isHidden(n *node, text string, p *patterns, at strictyaml.Position) bool {
	earlier := p.whole
	if earlier == nil && n.how != ByRegex {
		earlier = p.wildcards.find(text, 0, &p.compared)
	}
	if earlier == nil || earlier == n {
		return false
	}
	d.Warn(at, "never reached, %s at %s comes first and matches all of it", earlier.value(), earlier.place())
	return true
}

// warnOfMeaning warns of a key or a value that does not mean what it seems to.
func (d *decoder) warnOfMeaning(n *node) {
	key := n.entry.Key
	switch prefix, isPattern := strings.CutSuffix(key, "*"); {
	case n.how == ByKey && isPattern:
		d.WarnIn("key", n.at(), "only the key %q itself matches, not every key that begins with %q as in envoyproxy/ratelimit: a * is a wildcard in values only", key, prefix)
	case n.how == ByNetwork && key == maskedAddress:
		d.WarnIn("networks", n.at(), "never reached, with %s Envoy sends a network and not an address: compare it with value, or let Envoy send remote_address", maskedAddress)
	case n.how == ByValue:
		d.Enter(strictyaml.Step{Field: "value"})
		d.warnOfNetwork(key, n.entry.Value, n.at())
		d.Leave()
	}
}

// warnOfNetwork warns of a value that is a network.
func (d *decoder) warnOfNetwork(key, value string, at strictyaml.Position) {
	if !strings.Contains(value, "/") {
		return
	}
	network, err := netip.ParsePrefix(value)
	switch {
	case err != nil:
	case key != maskedAddress:
		d.Warn(at, "%q is compared as text, not as an address range; use networks: [%q]", value, network.Masked())
	case network != network.Masked():
		d.Warn(at, "never reached, Envoy sends networks as %q", network.Masked())
	}
}

// maskedAddress is Envoy's action that sends the network of an address, and its key.
const maskedAddress = "masked_remote_address"
