package descriptors

import (
	"fmt"
	"net/netip"
	"strings"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// Warnings returns likely mistakes in the rules, sorted by location. They are not errors,
// because envoyproxy/ratelimit accepts them.
func (t *Tree) Warnings() Problems { return t.warnings }

// mention is a name in the field replaces of a limit, and its location.
type mention struct {
	name     limiter.Entry // the domain as key, the name as value
	location Problem       // a problem without a message
}

func (l *loader) warn(at Problem, format string, args ...any) {
	at.Message = fmt.Sprintf(format, args...)
	l.tree.warnings = append(l.tree.warnings, at)
}

// warnOfDomains warns of domains without rules, and of names in replaces that no limit has.
func (l *loader) warnOfDomains() {
	for name, root := range l.tree.domains {
		if len(root.children) == 0 && root.keyless == nil {
			at := root.location()
			at.Path = "domain"
			l.warn(at, "the domain %q has no rules, everything is admitted", name)
		}
	}
	for _, m := range l.replaced {
		if !l.names[m.name] {
			l.warn(m.location, "no limit of the domain %q has the name %q, so nothing is replaced", m.name.Key, m.name.Value)
		}
	}
}

// isHidden reports whether an earlier pattern of the same key matches every value that text, a wildcard
// or regular expression of n, matches. If so, isHidden warns that text is never reached. An earlier
// wildcard hides text if it matches text, because a '*' of the earlier wildcard covers each '*' in
// text. An earlier regular expression is known to hide others only if it matches every value. Comparing
// all wildcards with each other takes quadratic time, so p.compared limits the comparisons.
func (d *decoder) isHidden(n *node, text string, p *patterns, at strictyaml.Position) bool {
	earlier := p.catchAll
	if earlier == nil && n.how != ByRegex {
		earlier = p.wildcards.find(text, 0, &p.compared)
	}
	if earlier == nil || earlier == n {
		return false
	}
	d.Warn(at, "never reached, %s at %s comes first and matches all of it", earlier.value(), earlier.location())
	return true
}

// warnOfMeaning warns of a key or value that is often misunderstood.
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

// warnOfNetwork warns of a value that is written like a network.
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

// maskedAddress names the Envoy action that sends the network of an address, and the key of its entry.
const maskedAddress = "masked_remote_address"
