package descriptors

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"weir/internal/limiter"
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
		part := Spell(l.Entry) + [...]string{" leads nowhere", " by value to ", " by list to ", " by network to ", " by wildcard to ", " by regex to ", " by key to ", " names the hold"}[l.How]
		if l.Node.Key != "" {
			part += Spell(l.Node)
		}
		parts = append(parts, part+strings.TrimSuffix(" "+l.Network, " "))
	}
	if trace.Ends {
		parts = append(parts, "ends at "+trace.Rule.String())
	}
	if trace.Children != nil {
		parts = append(parts, "there are "+spell(trace.Children))
	}
	if h := trace.Hidden; h != nil {
		parts = append(parts, fmt.Sprintf("%s hides %s", Spell(h.By), spell(append([]limiter.Entry{h.General}, h.Way...))))
	}
	return strings.Join(parts, "; ")
}

func TestExplain(t *testing.T) {
	compareComments(t, "testdata/explain", explained)
	if got := new(Tree).Explain("api", entries("user=bob")); !reflect.DeepEqual(got, Trace{}) {
		t.Errorf("zero tree: got %+v", got)
	}
}
