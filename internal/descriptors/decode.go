package descriptors

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// decoder decodes one rule file, or a resource of a control plane.
type decoder struct {
	strictyaml.Decoder
	names          names
	pause          func() // is called for every descriptor, see Options
	calendarMonths bool   // see Options
}

// newDecoder returns a decoder whose problems shall name a file so.
func newDecoder(name string, opts Options) *decoder {
	d := &decoder{pause: opts.Pause, calendarMonths: opts.CalendarMonths}
	d.File, d.Elsewhere, d.Synonyms = name, elsewhere, synonyms
	d.names.given = make(map[string]bool)
	return d
}

// fileConfig is a rule file as it is written.
type fileConfig struct {
	domain      string
	domainAt    strictyaml.Position
	descriptors []descriptorConfig
	otherwise   *descriptorConfig // without key and value
}

// descriptorConfig is one item of a list of descriptors.
type descriptorConfig struct {
	at             strictyaml.Position
	key, value     string
	matcher        *matcher         // of which value, if not value
	limits         []*limiter.Limit // without what rule adds
	shadow, quota  bool
	detailedMetric bool
	valueToMetric  bool
	shareThreshold bool
	below          bool
	override       *Override // without what rule adds
	metadata       map[string]any
	descriptors    []descriptorConfig
}

// String names the descriptor in a problem.
func (c *descriptorConfig) String() string {
	switch c.how() {
	case ByKey:
		return fmt.Sprintf("key %q without value", c.key)
	case ByRegex:
		return fmt.Sprintf("key %q with regex %q", c.key, c.matcher.text)
	default:
		return fmt.Sprintf("key %q with value %q", c.key, c.value)
	}
}

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
		case "otherwise":
			c.otherwise = d.otherwise(n)
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
	var at fieldsAt
	valuesFrom := ""
	d.Fields(n, descriptorFields, func(name string, n *yaml.Node) {
		switch name {
		case "key":
			var ok bool
			c.key, ok = d.Bytes(n)
			keyAt = strictyaml.At(n)
			missing = ok && c.key == ""
		case "value", "values", "networks", "regex":
			d.values(&c, &valuesFrom, name, n)
		case "descriptors":
			c.descriptors = d.descriptors(n)
			at.descriptors = strictyaml.At(n)
		case "below":
			c.below = d.Flag(n)
			at.below = strictyaml.At(n)
		case "override":
			c.override = d.override(n)
			at.override = strictyaml.At(n)
		case "detailed_metric":
			c.detailedMetric = d.Flag(n)
		case "value_to_metric":
			c.valueToMetric = d.Flag(n)
		default:
			d.ruleField(&c, &at, name, n)
		}
	})
	if missing {
		d.ProblemIn("key", keyAt, "a key is needed, allowed is any text but the empty one")
	}
	if at.descriptors != (strictyaml.Position{}) && len(c.descriptors)+len(c.limits) == 0 {
		d.WarnIn("descriptors", at.descriptors, "the list is empty, so nothing is limited here; list descriptors, or leave it out")
	}
	if how := c.how(); c.shareThreshold && (how == ByKey || how == ByValue) {
		d.ProblemIn("share_threshold", at.share, "nothing to share, allowed beside values, networks, regex and a value with a wildcard (*)")
	}
	if c.below && !at.limited() {
		d.ProblemIn("below", at.below, "the rule has no limit that could hold below it, allowed beside rate_limit or rate_limits")
	}
	d.wholeRule(&c, &at)
	if c.override != nil && (!at.limited() || len(c.limits) > 0) { // no limit of which all is wrong
		d.wholeOverride(&c, at.override)
	}
	return c
}

// otherwise decodes the rule for descriptors that no other rule is for.
func (d *decoder) otherwise(n *yaml.Node) *descriptorConfig {
	c := &descriptorConfig{at: strictyaml.At(n)}
	var at fieldsAt
	d.Fields(n, otherwiseFields, func(name string, n *yaml.Node) { d.ruleField(c, &at, name, n) })
	if n.Kind == yaml.MappingNode && !at.limited() {
		d.Problem(c.at, "a limit is needed, allowed are rate_limit and rate_limits")
	}
	d.wholeRule(c, &at)
	return c
}

// fieldsAt is where those fields of a rule are that are judged together. The zero
// value of each is nowhere, as in all resources of a control plane.
type fieldsAt struct {
	hasLimit                                    bool // rate_limit
	limits, share, descriptors, below, override strictyaml.Position
	shadow, quota                               strictyaml.Position
}

// limited reports whether there are limits, be they right or wrong.
func (at *fieldsAt) limited() bool { return at.hasLimit || at.limits != strictyaml.Position{} }

// ruleField decodes a field that otherwise has, too.
func (d *decoder) ruleField(c *descriptorConfig, at *fieldsAt, name string, n *yaml.Node) {
	switch name {
	case "rate_limit":
		if at.hasLimit = !strictyaml.IsNull(n); !at.hasLimit {
			d.Warn(strictyaml.At(n), "nothing stands here, which limits nothing; give a limit, or leave rate_limit out")
		}
		c.limits = append(c.limits, d.rateLimit(n)...)
	case "rate_limits":
		if !isEmptyList(n) { // which is a problem of its own
			at.limits = strictyaml.At(n)
		}
		c.limits = append(c.limits, d.rateLimits(n)...)
	case "shadow_mode":
		c.shadow = d.Flag(n)
		at.shadow = strictyaml.At(n)
	case "quota_mode":
		c.quota = d.Flag(n)
		at.quota = strictyaml.At(n)
	case "share_threshold":
		c.shareThreshold = d.Flag(n)
		at.share = strictyaml.At(n)
	case "metadata":
		c.metadata = d.metadata(n)
	}
}

// wholeRule judges what the fields of ruleField are together.
func (d *decoder) wholeRule(c *descriptorConfig, at *fieldsAt) {
	if at.hasLimit && at.limits != (strictyaml.Position{}) {
		d.ProblemIn("rate_limits", at.limits, "there is a rate_limit, too, allowed is one of rate_limit and rate_limits")
	}
	d.warnOfBans(c, at)
}

// warnOfBans warns of bans that never begin, because of the mode of the rule.
func (d *decoder) warnOfBans(c *descriptorConfig, at *fieldsAt) {
	if !slices.ContainsFunc(c.limits, func(l *limiter.Limit) bool { return l.DenyFor > 0 && !l.Trial }) {
		return
	}
	const message = "in %s limits ban nobody, so their deny_for has no effect"
	switch {
	case c.shadow:
		d.WarnIn("shadow_mode", at.shadow, message, "shadow_mode")
	case c.quota:
		d.WarnIn("quota_mode", at.quota, message, "quota_mode")
	}
}

// elsewhere returns where a field belongs that is not allowed where it is.
func elsewhere(field string) string {
	switch {
	case slices.Contains(descriptorFields, field):
		return "a descriptor"
	case slices.Contains(limitFields, field):
		return "a rate_limit"
	case slices.Contains(overrideFields, field):
		return "an override"
	case field == "otherwise":
		return "the file"
	}
	return ""
}
