package descriptors

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"weir/internal/limiter"
)

// explained is what Explain says of a descriptor.
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
	compareComments(t, "testdata/explain/*.yaml", explained)
	if got := new(Tree).Explain("api", entries("user=bob")); !reflect.DeepEqual(got, Trace{}) {
		t.Errorf("zero tree: got %+v", got)
	}
}

// FuzzExplain holds Explain to Match: it ends at the same rule, and its way is
// the one that the rule's levels spell.
func FuzzExplain(f *testing.F) {
	f.Add("user\nuser=a*\nuser=alice\n path=/login\n path\npath=*x*y\n", "user=alice\npath=/login")
	f.Add("h=*.com\nh=a*\nh=*\n x\n  y=1\n", "h=abbc\nx\ny=1")
	f.Add("h=*b\nh\n x=**\n", "h=\nx=")
	f.Add("h=[a,b,c\n x=<10.0.0.0/8,::/0\n x\nh=~[a-d]+\n", "h=a\nx=10.0.0.1")
	f.Fuzz(func(t *testing.T, rules, descriptor string) {
		if strings.ContainsFunc(rules+descriptor, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' }) {
			return
		}
		tree, err := Load([]File{{"rules.yaml", []byte("{domain: api, descriptors: [" + naiveTree(rules).yaml() + "]}")}}, Options{})
		if err != nil {
			return // FuzzMatch says which may not be loaded
		}
		way := entries(strings.Split(descriptor, "\n")...)
		trace := tree.Explain("api", way)
		if want := tree.Match("api", way); trace.Rule != want {
			t.Fatalf("%v in %s: explained %v, matched %v", way, rules, trace.Rule, want)
		}
		for i, l := range trace.Levels {
			nowhere := l.How == Nowhere
			if l.Entry != way[i] || nowhere != (l.Node.Key == "") || nowhere && i < len(trace.Levels)-1 {
				t.Fatalf("%v in %s: level %d is %+v", way, rules, i, l)
			}
		}
		if trace.Rule == nil {
			return
		}
		nodes := trace.Rule.node.path()[1:]
		for i, l := range trace.Levels {
			if len(nodes) != len(trace.Levels) || l.Node != nodes[i].named() || trace.Children != nil {
				t.Fatalf("%v in %s: explained %+v, but the rule is %v", way, rules, trace, trace.Rule)
			}
		}
	})
}
