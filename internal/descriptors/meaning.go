package descriptors

import (
	"net/netip"
	"strings"

	"weir/internal/descriptors/strictyaml"
)

// warnOfMeaning warns of a key or a value that does not mean what it seems to.
func (b *branch) warnOfMeaning(n *node, config *descriptorConfig) {
	if prefix, isPattern := strings.CutSuffix(config.key, "*"); isPattern && n.how == ByKey {
		b.WarnIn("key", config.at, "only the key %q itself matches, not every key that begins with %q as in envoyproxy/ratelimit: a * is a wildcard in values only", config.key, prefix)
	}
	switch n.how {
	case ByValue:
		b.warnOfNetwork("value", config.key, config.value, config.at)
	case ByList:
		for _, v := range config.matcher.values {
			b.warnOfNetwork("values", config.key, v.item, v.at)
		}
	case ByNetwork:
		if config.key == maskedAddress {
			b.WarnIn("networks", config.at, "never reached, with %s Envoy sends a network and not an address: compare it with value or values, or let Envoy send remote_address", maskedAddress)
		}
	}
}

// warnOfNetwork warns of a value that is a network.
func (b *branch) warnOfNetwork(field, key, value string, at strictyaml.Position) {
	if !strings.Contains(value, "/") {
		return
	}
	network, err := netip.ParsePrefix(value)
	switch {
	case err != nil:
	case key != maskedAddress:
		b.WarnIn(field, at, "%q is a text here, not a range of addresses: write networks: [%q] for its addresses", value, network.Masked())
	case network != network.Masked():
		b.WarnIn(field, at, "never reached, Envoy sends networks as %q", network.Masked())
	}
}

// maskedAddress is Envoy's action that sends the network of an address, and its key.
const maskedAddress = "masked_remote_address"
