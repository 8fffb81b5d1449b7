package descriptors

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/limiter"
)

// entries makes a descriptor of "key=value" words.
func entries(words ...string) []limiter.Entry {
	var list []limiter.Entry
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		list = append(list, limiter.Entry{Key: key, Value: value})
	}
	return list
}

func TestMatch(t *testing.T) {
	tree := load(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - {key: path, value: /login}
      - {key: method, descriptors: [{key: path}]}
  - {key: user, value: alice, descriptors: [{key: path}]}
  - {key: user, value: a*}
  - {key: user, value: ab*}
  - {key: host, value: "*.example.com"}
  - {key: host, value: www*}
  - {key: host, value: w*.*.com}
  - {key: host, value: "*"}
  - {key: any, value: "*"}
  - {key: any_b, value: c}
  - {key: any, value: b_c}
  - {key: middle, value: a*b*b*c}
  - {key: middle, value: x**y}
  - {key: order, value: aa*x}
  - {key: order, value: bb*}
  - {key: order, value: cc*x}
  - {key: order, value: cc*}
`)
	for _, test := range []struct {
		descriptor []limiter.Entry
		want       string // the rule, "" if none applies
	}{
		{entries(), ""},
		{entries("user=bob"), "api|user"},
		{entries("user"), "api|user"},
		{entries("User=bob"), ""},
		{entries("path=/login"), ""},

		// The last entry must land on a rule.
		{entries("user=bob", "path=/login"), "api|user|path=/login"},
		{entries("user=bob", "path=/other"), ""},
		{entries("user=bob", "path=/login", "x=y"), ""},
		{entries("user=bob", "method=GET"), ""},
		{entries("user=bob", "method=GET", "path=/"), "api|user|method|path"},

		// The exact value wins, even where it leads nowhere.
		{entries("user=alice"), ""},
		{entries("user=alice", "path=/login"), "api|user=alice|path"},
		{entries("user=alice", "method=GET", "path=/"), ""},

		// The first wildcard in the file wins, also over a closer one.
		{entries("user=abc"), "api|user=a*"},
		{entries("user=a"), "api|user=a*"},
		{entries("user=a*"), "api|user=a*"},
		{entries("user=ab*"), "api|user=ab*"}, // this is its exact value
		{entries("user=ba"), "api|user"},
		{entries("host=www.example.com"), "api|host=*.example.com"},
		{entries("host=www.example.org"), "api|host=www*"},
		{entries("host=web.example.org.com"), "api|host=w*.*.com"},
		{entries("host=x"), "api|host=*"},
		{entries("order=ccx"), "api|order=cc*x"},
		{entries("host=.example.com"), "api|host=*.example.com"},

		// No value is no exception: only * alone matches it.
		{entries("host"), "api|host=*"},
		{entries("middle"), ""},

		// Key and value are two strings.
		{entries("any=b_c"), "api|any=b_c"},
		{entries("any_b=c"), "api|any_b=c"},
		{entries("any_b=d"), ""},
		{entries("any=x"), "api|any=*"},

		// What a * stands for does not overlap with the text around it.
		{entries("middle=abbc"), "api|middle=a*b*b*c"},
		{entries("middle=axbxxbxc"), "api|middle=a*b*b*c"},
		{entries("middle=abc"), ""},
		{entries("middle=abbcx"), ""},
		{entries("middle=xy"), "api|middle=x**y"},
		{entries("middle=x"), ""},
	} {
		got := ""
		if rule := tree.Match("api", test.descriptor); rule != nil {
			got = rule.String()
		}
		if got != test.want {
			t.Errorf("%v: got %q, want %q", test.descriptor, got, test.want)
		}
	}
	if rule := tree.Match("other", entries("user=bob")); rule != nil {
		t.Errorf("unknown domain: got %v", rule)
	}
	var zero Tree
	if rule := zero.Match("api", entries("user=bob")); rule != nil {
		t.Errorf("zero tree: got %v", rule)
	}
}

// Every value shares one counter where a wildcard stands for it.
func TestMatchPatterns(t *testing.T) {
	tree := load(t, `
domain: api
descriptors:
  - key: path
    value: /files/*
    share_threshold: true
    descriptors:
      - key: user
        descriptors:
          - {key: host, value: "*.com", share_threshold: true}
          - {key: host, value: "*.org"}
  - {key: path, value: /img/*}
`)
	for _, test := range []struct {
		descriptor []limiter.Entry
		want       string
	}{
		{entries("path=/files/a", "user=u", "host=x.com"), `["/files/*" "" "*.com"]`},
		{entries("path=/files/a", "user=u", "host=x.org"), `["/files/*"]`},
		{entries("path=/img/a"), `[]`},
	} {
		rule := tree.Match("api", test.descriptor)
		if rule == nil {
			t.Fatalf("%v: no rule", test.descriptor)
		}
		if got := fmt.Sprintf("%q", rule.Patterns); got != test.want {
			t.Errorf("%v: got patterns %s, want %s", test.descriptor, got, test.want)
		}
	}
}

// manyRules holds rules of all kinds on one level: n values, and n wildcards of
// each shape.
func manyRules(n int) string {
	var b strings.Builder
	b.WriteString("domain: api\ndescriptors:\n")
	const limit = "rate_limit: {unit: minute, requests_per_unit: 5}"
	for i := range n {
		fmt.Fprintf(&b, "- {key: user, value: user-%d, %s}\n", i, limit)
		fmt.Fprintf(&b, "- {key: path, value: /%d/*, descriptors: [{key: user, %s}]}\n", i, limit)
		fmt.Fprintf(&b, "- {key: path, value: \"*.%d\", share_threshold: true, %s}\n", i, limit)
		fmt.Fprintf(&b, "- {key: path, value: /deep/%d/*/a*b/%d, %s}\n", i, i, limit)
	}
	return b.String()
}

// lookups are descriptors for a Tree of manyRules(n).
func lookups(n int) []lookup {
	last := n - 1
	return []lookup{
		{"exact", entries(fmt.Sprintf("user=user-%d", last)), true},
		{"prefix", entries(fmt.Sprintf("path=/%d/index", last), "user=alice"), true},
		{"suffix", entries(fmt.Sprintf("path=index.%d", last)), true},
		{"middle", entries(fmt.Sprintf("path=/deep/%d/x/a-b/%d", last, last)), true},
		{"none", entries("path=index.html/nothing-like-it"), false},
	}
}

type lookup struct {
	name       string
	descriptor []limiter.Entry
	matches    bool
}

// appendKeys does for a descriptor what a request does: it finds the rule, and
// spells the keys of its counters.
func (l *lookup) appendKeys(dst []byte, tree *Tree) []byte {
	if rule := tree.Match("api", l.descriptor); rule != nil {
		for _, limit := range rule.Limits {
			dst = limiter.Keys{}.Append(dst, "api", l.descriptor, rule.Patterns, limit)
		}
	}
	return dst
}

func TestMatchDoesNotAllocate(t *testing.T) {
	var keys []byte
	tree := load(t, manyRules(100))
	for _, l := range lookups(100) {
		if matches := tree.Match("api", l.descriptor) != nil; matches != l.matches {
			t.Errorf("%s: matches: %v", l.name, matches)
		}
		if n := testing.AllocsPerRun(100, func() { keys = l.appendKeys(keys[:0], tree) }); n != 0 {
			t.Errorf("%s: %v allocations", l.name, n)
		}
		if spelled := len(keys) > 0; spelled != l.matches {
			t.Errorf("%s: keys %q", l.name, keys)
		}
	}
}

// The cost depends on the depth of the descriptor, not on the number of rules:
// a search through 10,000 wildcards looks at no more of them than one through 10.
func TestMatchCostDoesNotGrowWithRules(t *testing.T) {
	shapes := func(n int) (shapes, longest int) {
		w := &load(t, manyRules(n)).domains["api"].patterns["path"].wildcards
		for _, same := range w.byEnds {
			longest = max(longest, len(same))
		}
		return len(w.shapes), longest
	}
	few, _ := shapes(10)
	many, longest := shapes(10_000)
	if want := 4 * few; many > want { // one to four digits instead of one
		t.Errorf("%d lookups for 10 rules of each kind, %d for 10,000, want at most %d", few, many, want)
	}
	if longest != 1 {
		t.Errorf("%d wildcards are tried one after the other, want 1", longest)
	}
}

// BenchmarkMatch finds rules and spells keys.
func BenchmarkMatch(b *testing.B) {
	var keys []byte
	for _, n := range []int{3, 100_000 / 4} {
		tree := load(b, manyRules(n))
		for _, l := range lookups(n) {
			b.Run(fmt.Sprintf("rules=%d/%s", tree.Rules(), l.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					keys = l.appendKeys(keys[:0], tree)
				}
			})
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	files := []File{{Name: "rules.yaml", Data: []byte(manyRules(100_000 / 4))}}
	b.SetBytes(int64(len(files[0].Data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(files, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
