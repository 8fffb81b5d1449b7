package descriptors

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"weir/internal/limiter"
	"weir/internal/strictyaml"
)

// decoder decodes one rule file, or a resource of a control plane.
type decoder struct {
	strictyaml.Decoder
	names names
	pause func() // is called for every descriptor, see Options
}

// newDecoder returns a decoder whose problems shall name a file so.
func newDecoder(name string, pause func()) *decoder {
	d := &decoder{pause: pause}
	d.File, d.Elsewhere, d.Synonyms = name, elsewhere, synonyms
	d.names.given = make(map[string]bool)
	return d
}

// fileConfig is a rule file as it is written.
type fileConfig struct {
	domain      string
	domainAt    strictyaml.Position
	descriptors []descriptorConfig
}

// descriptorConfig is one item of a list of descriptors.
type descriptorConfig struct {
	at             strictyaml.Position
	key, value     string
	limits         []*limiter.Limit // without what rule adds
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

func (d *decoder) file(root *yaml.Node) *fileConfig {
	c := &fileConfig{domainAt: strictyaml.At(root)}
	if strictyaml.Has(root, "tests") && !strictyaml.Has(root, "domain") {
		d.Problem(strictyaml.At(root), "this is a file of tests, run it with weir test")
		return c
	}
	missing := root.Kind == yaml.MappingNode
	d.Fields(root, fileFields, func(name string, n *yaml.Node) {
		switch name {
		case "domain":
			var ok bool
			c.domain, ok = d.Text(n)
			c.domainAt = strictyaml.At(n)
			missing = ok && c.domain == ""
		case "name":
			d.Text(n) // names the file for a management server, means nothing here
		case "descriptors":
			c.descriptors = d.descriptors(n)
		}
	})
	if missing {
		d.ProblemIn("domain", c.domainAt, "a domain is needed, allowed is any text but the empty one")
	}
	return c
}

func (d *decoder) descriptors(n *yaml.Node) []descriptorConfig {
	var list []descriptorConfig
	d.Items(n, func(n *yaml.Node) { list = append(list, d.descriptor(n)) })
	return list
}

// appendDescriptors decodes further items of the list of descriptors that is
// being decoded.
func (d *decoder) appendDescriptors(list []descriptorConfig, items []*yaml.Node) []descriptorConfig {
	d.ItemsFrom(len(list), items, func(n *yaml.Node) { list = append(list, d.descriptor(n)) })
	return list
}

func (d *decoder) descriptor(n *yaml.Node) descriptorConfig {
	d.pause()
	c := descriptorConfig{at: strictyaml.At(n)}
	keyAt, missing := c.at, n.Kind == yaml.MappingNode
	var shareAt, limitsAt, emptyAt strictyaml.Position
	hasLimit := false
	d.Fields(n, descriptorFields, func(name string, n *yaml.Node) {
		switch name {
		case "key":
			var ok bool
			c.key, ok = d.Bytes(n)
			keyAt = strictyaml.At(n)
			missing = ok && c.key == ""
		case "value":
			c.value, _ = d.Bytes(n)
		case "rate_limit":
			if hasLimit = !strictyaml.IsNull(n); !hasLimit {
				d.Warn(strictyaml.At(n), "nothing stands here, which limits nothing; give a limit, or leave rate_limit out")
			}
			c.limits = append(c.limits, d.rateLimit(n)...)
		case "rate_limits":
			if !isEmptyList(n) { // which is a problem of its own
				limitsAt = strictyaml.At(n)
			}
			c.limits = append(c.limits, d.rateLimits(n)...)
		case "descriptors":
			c.descriptors = d.descriptors(n)
			emptyAt = strictyaml.At(n)
		case "shadow_mode":
			c.shadow = d.Flag(n)
		case "quota_mode":
			c.quota = d.Flag(n)
		case "detailed_metric":
			c.detailedMetric = d.Flag(n)
		case "value_to_metric":
			c.valueToMetric = d.Flag(n)
		case "share_threshold":
			c.shareThreshold = d.Flag(n)
			shareAt = strictyaml.At(n)
		case "metadata":
			c.metadata = d.metadata(n)
		}
	})
	if missing {
		d.ProblemIn("key", keyAt, "a key is needed, allowed is any text but the empty one")
	}
	if emptyAt != (strictyaml.Position{}) && len(c.descriptors)+len(c.limits) == 0 {
		d.WarnIn("descriptors", emptyAt, "the list is empty, so everything is admitted here; list descriptors, or leave it out")
	}
	if c.shareThreshold && !isWildcard(c.value) {
		d.ProblemIn("share_threshold", shareAt, "nothing to share, allowed beside a value with a wildcard (*)")
	}
	if hasLimit && limitsAt != (strictyaml.Position{}) {
		d.ProblemIn("rate_limits", limitsAt, "there is a rate_limit, too, allowed is one of rate_limit and rate_limits")
	}
	return c
}

// elsewhere returns where a field belongs that is not allowed where it is.
func elsewhere(field string) string {
	switch {
	case slices.Contains(descriptorFields, field):
		return "a descriptor"
	case slices.Contains(limitFields, field):
		return "a rate_limit"
	}
	return ""
}
