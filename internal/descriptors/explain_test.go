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
				{entry("user", "bob"), ByKey, entry("user", ""), ""},
				{entry("path", "/cart"), ByWildcard, entry("path", "/*"), ""},
			}},
			rule: "api|user|path=/*",
		},
		{
			name: "exact value", domain: "api", descriptor: entries("user=bob", "path=/login"),
			want: Trace{Known: true, Levels: []Level{
				{entry("user", "bob"), ByKey, entry("user", ""), ""},
				{entry("path", "/login"), ByValue, entry("path", "/login"), ""},
			}},
			rule: "api|user|path=/login",
		},
		{
			name: "the text of a wildcard", domain: "api", descriptor: entries("user=a*"),
			want: Trace{Known: true, Levels: []Level{{entry("user", "a*"), ByValue, entry("user", "a*"), ""}}},
			rule: "api|user=a*",
		},
		{
			name: "no value", domain: "api", descriptor: entries("user"),
			want: Trace{Known: true, Levels: []Level{{entry("user", ""), ByKey, entry("user", ""), ""}}},
			rule: "api|user",
		},
		{
			name: "nowhere to go", domain: "api", descriptor: entries("user=bob", "host=x", "path=/"),
			want: Trace{
				Known: true,
				Levels: []Level{
					{entry("user", "bob"), ByKey, entry("user", ""), ""},
					{Entry: entry("host", "x")},
				},
				Children: []limiter.Entry{entry("method", ""), entry("path", "/*"), entry("path", "/login")},
			},
		},
		{
			name: "below a leaf", domain: "api", descriptor: entries("user=abc", "path=/"),
			want: Trace{Known: true, Levels: []Level{
				{entry("user", "abc"), ByWildcard, entry("user", "a*"), ""},
				{Entry: entry("path", "/")},
			}, Hidden: &Hidden{By: entry("user", "a*"), General: entry("user", ""), Way: entries("path=/*")}},
		},
		{
			name: "too short", domain: "api", descriptor: entries("user=alice"),
			want: Trace{
				Known:    true,
				Levels:   []Level{{entry("user", "alice"), ByValue, entry("user", "alice"), ""}},
				Children: []limiter.Entry{entry("path", "")},
				Hidden:   &Hidden{By: entry("user", "alice"), General: entry("user", "a*"), Way: []limiter.Entry{}},
			},
		},
		{
			name: "hidden above, and nowhere to go", domain: "api", descriptor: entries("user=alice", "method=GET", "path=/"),
			want: Trace{
				Known:    true,
				Levels:   []Level{{entry("user", "alice"), ByValue, entry("user", "alice"), ""}, {Entry: entry("method", "GET")}},
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
			if got.Ends != (rule != "") {
				t.Errorf("ends at its rule: %t", got.Ends)
			}
			got.Rule, got.Ends = nil, false
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
	if got := new(Tree).Explain("api", entries("user=bob")); !reflect.DeepEqual(got, Trace{}) {
		t.Errorf("zero tree: got %+v", got)
	}
}

func TestExplainLists(t *testing.T) {
	tree := load(t, `
domain: api
descriptors:
  - {key: k, values: [a, b, c]}
  - {key: k, networks: [10.0.0.0/8, "::/0"], rate_limit: {unit: day, requests_per_unit: 1}, descriptors: [{key: user}]}
  - {key: k, networks: [10.1.0.0/16], descriptors: [{key: path}]}
  - {key: k, regex: "1.*", descriptors: [{key: host}]}
`)
	node := func(value string) limiter.Entry { return limiter.Entry{Key: "k", Value: value} }
	for _, test := range []struct {
		descriptor string
		want       Level
		hidden     *Hidden
	}{
		{"k=b", Level{node("b"), ByList, node("[a+2]"), ""}, nil},
		{"k=10.2.0.1", Level{node("10.2.0.1"), ByNetwork, node("[10.0.0.0/8+1]"), "10.0.0.0/8"}, nil},
		{"k=fe80::1%2", Level{node("fe80::1%2"), ByNetwork, node("[10.0.0.0/8+1]"), "::/0"}, nil},
		{"k=10.1.0.1", Level{node("10.1.0.1"), ByNetwork, node("[10.1.0.0/16]"), "10.1.0.0/16"}, &Hidden{By: node("[10.1.0.0/16]"), General: node("[10.0.0.0/8+1]"), Way: []limiter.Entry{}}},
		{"k=10.1.0.1 host", Level{node("10.1.0.1"), ByNetwork, node("[10.1.0.0/16]"), "10.1.0.0/16"}, &Hidden{By: node("[10.1.0.0/16]"), General: node("~1.*"), Way: entries("host")}},
		{"k=12", Level{node("12"), ByRegex, node("~1.*"), ""}, nil},
		{"k=d", Level{Entry: node("d")}, nil},
	} {
		got := tree.Explain("api", entries(strings.Fields(test.descriptor)...))
		if got.Levels[0] != test.want || !reflect.DeepEqual(got.Hidden, test.hidden) {
			t.Errorf("%s: got %+v, hidden %+v, want %+v, hidden %+v", test.descriptor, got.Levels[0], got.Hidden, test.want, test.hidden)
		}
	}
	var names []string
	for _, e := range tree.Explain("api", entries("k=d")).Children {
		names = append(names, Spell(e))
	}
	if got, want := strings.Join(names, " "), "k=~1.* k=[10.0.0.0/8+1] k=[10.1.0.0/16] k=[a+2]"; got != want {
		t.Errorf("there are %s, want %s", got, want)
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
		nodes := trace.Rule.node.fromDomain()
		for i, l := range trace.Levels {
			if len(nodes) != len(trace.Levels) || l.Node != nodes[i].named() || trace.Children != nil {
				t.Fatalf("%v in %s: explained %+v, but the rule is %v", way, rules, trace, trace.Rule)
			}
		}
	})
}
