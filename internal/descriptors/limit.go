package descriptors

import (
	"math"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"weir/internal/limiter"
	"weir/internal/strictyaml"
)

var (
	limitFields = []string{
		"unit", "unit_multiplier", "requests_per_unit", "unlimited", "name", "replaces",
		"algorithm", "anchor", "burst", "charge", "failure_mode", "shadow_mode",
	}
	// countingFields say how to count, which an unlimited limit does not do. The
	// reference permits requests_per_unit there.
	countingFields = []string{"unit", "unit_multiplier", "algorithm", "anchor", "burst", "charge", "failure_mode"}
	replacesFields = []string{"name"}
)

// The words of fields that have some.
var (
	anchors = []string{limiter.Epoch: "epoch", limiter.FirstHit: "first_hit"}
	charges = []string{"auto", "admitted", "always"} // from limiter.Auto on

	synonyms = map[string]string{"leaky_bucket": "token_bucket", "gcra": "token_bucket"}
)

// limitConfig is a rate_limit, or an item of rate_limits.
type limitConfig struct {
	name   string
	nameAt strictyaml.Position
	limit  *limiter.Limit // nil if something is wrong with it
}

// rateLimit decodes a rate_limit; null is none.
func (d *decoder) rateLimit(n *yaml.Node) []*limiter.Limit {
	if strictyaml.IsNull(n) {
		return nil
	}
	if n.Kind == yaml.SequenceNode {
		d.Problem(strictyaml.At(n), "a list is not allowed (did you mean rate_limits?), a mapping is needed")
		return nil
	}
	if c := d.limit(n); c.limit != nil {
		return []*limiter.Limit{c.limit}
	}
	return nil
}

// rateLimits decodes rate_limits. An empty list is a problem: a rule whose limits
// were all commented out must not pass for one that allows everything.
func (d *decoder) rateLimits(list *yaml.Node) []*limiter.Limit {
	var limits []*limiter.Limit
	first := places{names: map[string]int{}, counters: map[string]int{}}
	i := 0
	d.Items(list, func(n *yaml.Node) {
		c := d.limit(n)
		d.distinct(first, i, c, strictyaml.At(n))
		if c.limit != nil {
			limits = append(limits, c.limit)
			if c.limit.Unlimited && len(c.limit.Replaces) == 0 && len(list.Content) > 1 {
				d.WarnIn("unlimited", strictyaml.At(list.Content[i]), "the other limits count all the same; leave this one out, or let it replace them")
			}
		}
		i++
	})
	if isEmptyList(list) {
		d.Problem(strictyaml.At(list), "the list is empty, at least one limit is needed")
	}
	return limits
}

func isEmptyList(n *yaml.Node) bool {
	return strictyaml.IsNull(n) || n.Kind == yaml.SequenceNode && len(n.Content) == 0
}

// places says where in rate_limits a name, and a counter, first occurs.
type places struct{ names, counters map[string]int }

// distinct reports what the limit at place i has in common with an earlier one: a
// name, which tells them apart in metrics and in replaces, or a counter, which
// both would count in.
func (d *decoder) distinct(first places, i int, c limitConfig, limitAt strictyaml.Position) {
	if j, taken := first.names[c.name]; taken {
		d.ProblemIn("name", c.nameAt, "%q is already the name of rate_limits[%d], allowed is one limit of a rule per name", c.name, j)
	} else if c.name != "" {
		first.names[c.name] = i
	}
	if c.limit == nil || c.limit.Unlimited {
		return
	}
	counter := string(c.limit.AppendKind(nil))
	if j, taken := first.counters[counter]; taken {
		d.Problem(limitAt, "rate_limits[%d] has the same counter, allowed are limits that differ in algorithm, anchor, period or shadow_mode", j)
	} else {
		first.counters[counter] = i
	}
}

// limit decodes a rate_limit or an item of rate_limits.
func (d *decoder) limit(n *yaml.Node) limitConfig {
	var s limiter.Spec
	found, given := d.Found(), map[string]strictyaml.Position{}
	d.Fields(n, limitFields, func(name string, n *yaml.Node) {
		if strictyaml.IsNull(n) || name == "unit" && n.Kind == yaml.ScalarNode && n.Value == "" {
			return // as good as left out
		}
		given[name] = strictyaml.At(n)
		d.limitField(&s, name, n)
	})
	if n.Kind == yaml.MappingNode {
		d.wholeLimit(&s, given, strictyaml.At(n))
	}
	if s.Name != "" {
		d.names.given[s.Name] = true
	}
	c := limitConfig{name: s.Name, nameAt: given["name"]}
	if d.Found() == found {
		var err error
		if c.limit, err = limiter.NewLimit(s); err != nil {
			d.Problem(strictyaml.At(n), "%v", err)
		}
	}
	return c
}

func (d *decoder) limitField(s *limiter.Spec, name string, n *yaml.Node) {
	switch name {
	case "unit":
		s.Unit = d.unit(n)
	case "unit_multiplier":
		s.UnitMultiplier = d.Amount(n, 1)
	case "requests_per_unit":
		s.RequestsPerUnit = d.Amount(n, 0)
	case "unlimited":
		s.Unlimited = d.Flag(n)
	case "name":
		s.Name, _ = d.Text(n)
	case "replaces":
		s.Replaces = d.replaces(n)
	case "algorithm":
		s.Algorithm = limiter.Algorithm(d.Word(n, limiter.AlgorithmNames()))
	case "anchor":
		s.Anchor = limiter.Anchor(d.Word(n, anchors))
	case "burst":
		s.Burst = d.Amount(n, 1)
	case "charge":
		s.Charge = limiter.Auto + limiter.Charge(d.Word(n, charges))
	case "failure_mode":
		s.FailureMode = limiter.FailureError + limiter.FailureMode(d.Word(n, limiter.FailureModeNames()))
	case "shadow_mode":
		if d.Flag(n) {
			s.Mode, s.Trial = limiter.Shadow, true
		}
	}
}

// wholeLimit reports which fields of a limit do not go together, and which are
// missing. given tells where its fields are, and limitAt where the limit is.
func (d *decoder) wholeLimit(s *limiter.Spec, given map[string]strictyaml.Position, limitAt strictyaml.Position) {
	has := func(field string) bool { _, ok := given[field]; return ok }
	if s.Unlimited {
		for _, field := range countingFields {
			if has(field) {
				d.ProblemIn(field, given[field], "an unlimited limit has no %s, allowed is one of %s and unlimited", field, field)
			}
		}
	} else {
		if !has("unit") {
			d.ProblemIn("unit", limitAt, "a unit is needed, allowed are %s", strings.Join(limiter.UnitNames(), ", "))
		}
		if !has("requests_per_unit") {
			d.ProblemIn("requests_per_unit", limitAt, "a number is needed, allowed are whole numbers from 0 to %d, or unlimited: true instead", uint32(math.MaxUint32))
		}
		for _, option := range []limiter.Option{limiter.BurstOption, limiter.AnchorOption} {
			if field := string(option); has(field) && !s.Algorithm.Takes(option) {
				d.ProblemIn(field, given[field], "%s has no %s, allowed is one with algorithm %s", s.Algorithm, field, option.Algorithms())
			}
		}
	}
	if s.Name != "" && slices.Contains(s.Replaces, s.Name) {
		d.ProblemIn("replaces", given["replaces"], "the limit replaces itself (%q), allowed are names of other limits", s.Name)
	}
}

func (d *decoder) unit(n *yaml.Node) limiter.Unit {
	name, ok := d.Text(n)
	unit, known := limiter.ParseUnit(name)
	if ok && !known {
		d.Problem(strictyaml.At(n), "unknown unit %q%s, allowed are %s", name, d.DidYouMean(name, limiter.UnitNames()), strings.Join(limiter.UnitNames(), ", "))
	}
	return unit
}

func (d *decoder) replaces(n *yaml.Node) []string {
	var names []string
	d.Items(n, func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && !strictyaml.IsNull(n) {
			d.Problem(strictyaml.At(n), "%s is not allowed, a mapping is needed, such as name: %[1]s", strictyaml.Describe(n))
			return
		}
		nameAt, missing := strictyaml.At(n), n.Kind == yaml.MappingNode
		d.Fields(n, replacesFields, func(_ string, n *yaml.Node) {
			name, ok := d.Text(n)
			nameAt, missing = strictyaml.At(n), ok && name == ""
			names = append(names, name)
			d.names.mentions = append(d.names.mentions, mention{name, d.Here(nameAt)})
		})
		if missing {
			d.ProblemIn("name", nameAt, "a name is needed, allowed are names of other limits")
		}
	})
	return names
}
