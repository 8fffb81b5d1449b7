package descriptors

import (
	"slices"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// branch is the way from a domain to the node that is being added.
type branch struct {
	*strictyaml.Reporter
	compiler *compiler
	domain   string              // as a label
	levels   []*descriptorConfig // from the first one on
}

// descriptors adds children to a node.
func (b *branch) descriptors(parent *node, list []descriptorConfig) {
	b.Enter(strictyaml.Step{Field: "descriptors"})
	defer b.Leave()
	if parent.exact == nil && len(list) > 0 {
		parent.children, parent.exact = make([]*node, 0, len(list)), make(map[limiter.Entry]*node, len(list))
	}
	for i := range list {
		if b.compiler.opts.ended() != nil {
			return
		}
		b.Enter(strictyaml.Step{Index: i})
		b.levels = append(b.levels, &list[i])
		b.descriptor(parent, &list[i])
		b.levels = b.levels[:len(b.levels)-1]
		b.Leave()
	}
}

func (b *branch) descriptor(parent *node, config *descriptorConfig) {
	b.compiler.opts.Pause()
	n := config.node(parent)
	if twin := n.twin(); twin == nil {
		b.warnIfHidden(n, config)
		b.warnOfMeaning(n, config)
		b.compiler.defined[n] = b.Origin(config.at)
		b.lead(n, config)
		if n.how != ByKey {
			b.compiler.valued = append(b.compiler.valued, valued{n, config.matcher})
		}
	} else if config.key != "" {
		b.Problem(config.at, "%s is already at %s, allowed is one descriptor per key and value", config, b.compiler.defined[twin])
	}
	if len(config.limits) > 0 || len(config.descriptors) == 0 || config.override != nil {
		n.rule = b.rule(n, config)
	} else {
		n.rule = parent.below()
	}
	b.descriptors(n, config.descriptors)
}

// otherwise gives a domain the rule for descriptors that no other rule is for.
func (b *branch) otherwise(root *node, config *descriptorConfig) {
	if config == nil {
		return
	}
	if other := root.rule; other != nil {
		b.ProblemIn("otherwise", config.at, "there is one at %s already, allowed is one per domain", other.Place())
		return
	}
	b.levels = append(b.levels, config)
	root.rule = b.rule(root, config)
	if config.shareThreshold {
		root.rule.Patterns = []string{"*"}
	}
}

// rule builds the rule of n, the branch's last level, and adds it to the tree.
func (b *branch) rule(n *node, config *descriptorConfig) *Rule {
	r := &Rule{
		Limits:         config.limits,
		Override:       config.override,
		Metadata:       config.metadata,
		detailedMetric: config.detailedMetric,
		node:           n,
		file:           b.File,
		at:             config.at,
		below:          config.below,
		levels:         int16(len(b.levels)),
	}
	if n.parent != nil {
		r.Above = n.parent.below()
	}
	b.setHold(r, config)
	var levels []byte
	way := r.levelNodes()
	for i, l := range b.levels {
		levels = append(append(levels, way[i].label()...), limiter.LevelEnd)
		if l.shareThreshold {
			r.Patterns = append(r.Patterns, make([]string, i+1-len(r.Patterns))...)
			r.Patterns[i] = way[i].pattern()
		}
		r.valueToMetric = r.valueToMetric || l.valueToMetric
	}
	r.labels = b.valuedLabels(way)
	labels := limiter.NewLabelSet(b.domain, string(levels))
	labels.Rule = r.way()
	for _, l := range r.Limits {
		labels.Limit = limitLabel(l)
		l.Series = labels.Series()
		switch {
		case config.shadow:
			l.Mode = limiter.Shadow
		case config.quota && l.Mode == limiter.Enforced:
			l.Mode = limiter.Quota
		}
	}
	if r.Override != nil {
		labels.Limit = "override"
		r.Override.Series = labels.Series()
		switch {
		case config.shadow:
			r.Override.Mode = limiter.Shadow
		case config.quota:
			r.Override.Mode = limiter.Quota
		}
	}
	tree := b.compiler.tree
	tree.rules = append(tree.rules, r)
	tree.judgesOverrides = tree.judgesOverrides || r.below || r.Override != nil || r.Hold != ""
	return r
}

// valuedLabels are those of the rule of the branch's last level if values of
// requests belong in them, else nil.
func (b *branch) valuedLabels(way []*node) []levelLabel {
	detailed := b.levels[len(b.levels)-1].detailedMetric
	var labels []levelLabel
	for i, l := range b.levels {
		labels = append(labels, label(way[i], l, detailed))
	}
	if !slices.ContainsFunc(labels, func(l levelLabel) bool { return l.valued }) {
		return nil
	}
	return labels
}
