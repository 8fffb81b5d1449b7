package descriptors

import (
	"reflect"
	"strings"
	"testing"

	"weir/internal/limiter"
)

func TestExplain(t *testing.T) {
	tree := load(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - {key: path, value: /login}
      - {key: path, value: /*}
      - {key: method, descriptors: [{key: path}]}
  - {key: user, value: a*}
  - {key: user, value: alice, descriptors: [{key: path}]}
`)
	entry := func(key, value string) limiter.Entry { return limiter.Entry{Key: key, Value: value} }
	tests := []struct {
		name, domain string
		descriptor   []limiter.Entry
		want         Trace // without Rule
		rule         string
	}{
		{
			name: "each way", domain: "api", descriptor: entries("user=bob", "path=/cart"),
			want: Trace{Known: true, Levels: []Level{
				{entry("user", "bob"), ByKey, entry("user", "")},
				{entry("path", "/cart"), ByWildcard, entry("path", "/*")},
			}},
			rule: "api|user|path=/*",
		},
		{
			name: "exact value", domain: "api", descriptor: entries("user=bob", "path=/login"),
			want: Trace{Known: true, Levels: []Level{
				{entry("user", "bob"), ByKey, entry("user", "")},
				{entry("path", "/login"), ByValue, entry("path", "/login")},
			}},
			rule: "api|user|path=/login",
		},
		{
			name: "the text of a wildcard", domain: "api", descriptor: entries("user=a*"),
			want: Trace{Known: true, Levels: []Level{{entry("user", "a*"), ByValue, entry("user", "a*")}}},
			rule: "api|user=a*",
		},
		{
			name: "no value", domain: "api", descriptor: entries("user"),
			want: Trace{Known: true, Levels: []Level{{entry("user", ""), ByKey, entry("user", "")}}},
			rule: "api|user",
		},
		{
			name: "nowhere to go", domain: "api", descriptor: entries("user=bob", "host=x", "path=/"),
			want: Trace{
				Known: true,
				Levels: []Level{
					{entry("user", "bob"), ByKey, entry("user", "")},
					{Entry: entry("host", "x")},
				},
				Children: []limiter.Entry{entry("method", ""), entry("path", "/*"), entry("path", "/login")},
			},
		},
		{
			name: "below a leaf", domain: "api", descriptor: entries("user=abc", "path=/"),
			want: Trace{Known: true, Levels: []Level{
				{entry("user", "abc"), ByWildcard, entry("user", "a*")},
				{Entry: entry("path", "/")},
			}, Hidden: &Hidden{By: entry("user", "a*"), General: entry("user", ""), Way: entries("path=/*")}},
		},
		{
			name: "too short", domain: "api", descriptor: entries("user=alice"),
			want: Trace{
				Known:    true,
				Levels:   []Level{{entry("user", "alice"), ByValue, entry("user", "alice")}},
				Children: []limiter.Entry{entry("path", "")},
				Hidden:   &Hidden{By: entry("user", "alice"), General: entry("user", "a*"), Way: []limiter.Entry{}},
			},
		},
		{
			name: "hidden above, and nowhere to go", domain: "api", descriptor: entries("user=alice", "method=GET", "path=/"),
			want: Trace{
				Known:    true,
				Levels:   []Level{{entry("user", "alice"), ByValue, entry("user", "alice")}, {Entry: entry("method", "GET")}},
				Children: []limiter.Entry{entry("path", "")},
				Hidden:   &Hidden{By: entry("user", "alice"), General: entry("user", ""), Way: entries("method", "path")},
			},
		},
		{
			name: "no entries", domain: "api",
			want: Trace{Known: true, Children: []limiter.Entry{entry("user", ""), entry("user", "a*"), entry("user", "alice")}},
		},
		{
			name: "unknown domain", domain: "shop", descriptor: entries("user=bob"),
			want: Trace{Domains: []string{"api"}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := tree.Explain(test.domain, test.descriptor)
			rule := ""
			if got.Rule != nil {
				rule = got.Rule.String()
			}
			if rule != test.rule {
				t.Errorf("got the rule %q, want %q", rule, test.rule)
			}
			got.Rule = nil
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
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
		_, nodes := wayTo(trace.Rule)
		for i, l := range trace.Levels {
			if len(nodes) != len(trace.Levels) || l.Node != nodes[i] || trace.Children != nil {
				t.Fatalf("%v in %s: explained %+v, but the rule is %v", way, rules, trace, trace.Rule)
			}
		}
	})
}
