package descriptors

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"weir/internal/limiter"
)

// fileConfig is a rule file as it is written.
type fileConfig struct {
	domain      string
	domainAt    position
	descriptors []descriptorConfig
}

// descriptorConfig is one item of a list of descriptors.
type descriptorConfig struct {
	at             position
	key, value     string
	limits         []*limiter.Limit // without mode and series
	shadow, quota  bool
	detailedMetric bool
	valueToMetric  bool
	shareThreshold bool
	metadata       map[string]any
	descriptors    []descriptorConfig
}

// String names the descriptor in a problem.
func (c *descriptorConfig) String() string {
	if c.value == "" {
		return fmt.Sprintf("key %q without value", c.key)
	}
	return fmt.Sprintf("key %q with value %q", c.key, c.value)
}

// The fields of the format, by where they belong; those of a limit are in limit.go.
var (
	fileFields       = []string{"domain", "name", "descriptors"}
	descriptorFields = []string{
		"key", "value", "rate_limit", "rate_limits", "descriptors", "shadow_mode", "quota_mode",
		"detailed_metric", "value_to_metric", "share_threshold", "metadata",
	}
)

func (d *decoder) file(root *yaml.Node) fileConfig {
	c := fileConfig{domainAt: at(root)}
	missing := root.Kind == yaml.MappingNode
	d.fields(root, fileFields, func(name string, n *yaml.Node) {
		switch name {
		case "domain":
			var ok bool
			c.domain, ok = d.text(n)
			c.domainAt = at(n)
			missing = ok && c.domain == ""
		case "name":
			d.text(n) // names the file for a management server, means nothing here
		case "descriptors":
			c.descriptors = d.descriptors(n)
		}
	})
	if missing {
		d.problemIn("domain", c.domainAt, "a domain is needed, allowed is any text but the empty one")
	}
	return c
}

func (d *decoder) descriptors(n *yaml.Node) []descriptorConfig {
	var list []descriptorConfig
	d.items(n, func(n *yaml.Node) { list = append(list, d.descriptor(n)) })
	return list
}

func (d *decoder) descriptor(n *yaml.Node) descriptorConfig {
	c := descriptorConfig{at: at(n)}
	keyAt, missing := c.at, n.Kind == yaml.MappingNode
	var shareAt, limitsAt position
	hasLimit := false
	d.fields(n, descriptorFields, func(name string, n *yaml.Node) {
		switch name {
		case "key":
			var ok bool
			c.key, ok = d.bytes(n)
			keyAt = at(n)
			missing = ok && c.key == ""
		case "value":
			c.value, _ = d.bytes(n)
		case "rate_limit":
			hasLimit = !isNull(n)
			c.limits = append(c.limits, d.rateLimit(n)...)
		case "rate_limits":
			limitsAt = at(n)
			c.limits = append(c.limits, d.rateLimits(n)...)
		case "descriptors":
			c.descriptors = d.descriptors(n)
		case "shadow_mode":
			c.shadow = d.flag(n)
		case "quota_mode":
			c.quota = d.flag(n)
		case "detailed_metric":
			c.detailedMetric = d.flag(n)
		case "value_to_metric":
			c.valueToMetric = d.flag(n)
		case "share_threshold":
			c.shareThreshold = d.flag(n)
			shareAt = at(n)
		case "metadata":
			c.metadata = d.metadata(n)
		}
	})
	if missing {
		d.problemIn("key", keyAt, "a key is needed, allowed is any text but the empty one")
	}
	if c.shareThreshold && !isWildcard(c.value) {
		d.problemIn("share_threshold", shareAt, "nothing to share, allowed beside a value with a wildcard (*)")
	}
	if hasLimit && limitsAt != (position{}) {
		d.problemIn("rate_limits", limitsAt, "there is a rate_limit, too, allowed is one of rate_limit and rate_limits")
	}
	return c
}

// unknownField reports a field that is not among allowed, and guesses what was
// meant.
func (d *decoder) unknownField(key *yaml.Node, allowed []string) {
	if key.Kind != yaml.ScalarNode {
		d.problem(at(key), "a field's name is needed before the colon, allowed are %s", strings.Join(allowed, ", "))
		return
	}
	hint := ""
	if near := nearest(key.Value, allowed); near != "" {
		hint = fmt.Sprintf(" (did you mean %s?)", near)
	} else if slices.Contains(descriptorFields, key.Value) {
		hint = " (it belongs to a descriptor)"
	} else if slices.Contains(limitFields, key.Value) {
		hint = " (it belongs to a rate_limit)"
	}
	d.problem(at(key), "unknown field %s%s, allowed are %s", describe(key), hint, strings.Join(allowed, ", "))
}
