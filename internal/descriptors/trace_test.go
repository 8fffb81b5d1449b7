package descriptors

import (
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// explained formats the result of Explain.
func explained(tree *Tree, descriptor []limiter.Entry) string {
	trace := tree.Explain("api", descriptor)
	spell := func(list []limiter.Entry) string {
		var words []string
		for _, e := range list {
			words = append(words, Spell(e))
		}
		return strings.Join(words, ", ")
	}
	var parts []string
	for _, l := range trace.Levels {
		part := l.Entry + " by " + l.Match + " to " + l.Node
		switch l.Match {
		case "none":
			part = l.Entry + " leads nowhere"
		case "hold":
			part = l.Entry + " names the hold"
		}
		parts = append(parts, part+strings.TrimSuffix(" "+l.Network, " "))
	}
	if trace.Ends {
		parts = append(parts, "ends at "+trace.Rule.String())
	}
	if trace.Children != nil {
		parts = append(parts, "there are "+spell(trace.Children))
	}
	if trace.Hidden != "" {
		parts = append(parts, trace.Hidden)
	}
	return strings.Join(parts, "; ")
}

func TestExplain(t *testing.T) {
	compareComments(t, "testdata/explain", explained)
	testenv.EqualDeep(t, new(Tree).Explain("api", entries("user=bob")), Trace{}, "trace of the zero tree")
}
