package descriptors

import (
	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

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
	first := places{names: map[string]int{}, counters: map[string]int{}, holds: map[string]int{}}
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

// places says where in rate_limits a name, a counter, and the key of holds, first occurs.
type places struct{ names, counters, holds map[string]int }

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
		d.Problem(limitAt, "rate_limits[%d] has the same counter, allowed are limits that differ in algorithm, anchor, time_zone, period or shadow_mode", j)
	} else {
		first.counters[counter] = i
	}
	if key := c.limit.HoldKey(); key != "" {
		for other, j := range first.holds { // one at most
			if other != key {
				d.ProblemIn("hold", limitAt, "%q differs from %q of rate_limits[%d], allowed is one entry that names the holds of a rule", key, other, j)
				return
			}
		}
		first.holds[key] = i
	}
}
