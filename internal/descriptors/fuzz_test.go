package descriptors

import (
	"errors"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// FuzzLoad loads arbitrary bytes. Load must not panic and must always return the same tree or
// problems, and the methods Dump and Match of the tree must work.
func FuzzLoad(f *testing.F) {
	for _, data := range testenv.ReadAll(f, "testdata/good/*", "testdata/bad/*.*", "testdata/bad/*/*", "../../config/*") {
		f.Add(data, []byte("domain: api\ndescriptors:\n- key: path\n"))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		files := []File{{"1.yaml", first}, {"2.yaml", second}}
		opts := Options{MergeDomains: len(first)%2 == 0}
		tree, err := Load(files, opts)
		again, errAgain := Load(files, opts)
		if err != nil {
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 || tree != nil {
				t.Fatalf("got the tree %v and the error %#v", tree, err)
			}
			if errAgain == nil || errAgain.Error() != err.Error() {
				t.Fatalf("got first\n%v\nthen\n%v", err, errAgain)
			}
			return
		}
		if errAgain != nil {
			t.Fatalf("loaded first, then refused: %v", errAgain)
		}
		text, lines := dump(t, tree), 0
		for _, rule := range tree.rules {
			lines += max(1, len(rule.Limits))
		}
		if text != dump(t, again) || strings.Count(text, "\n") != lines {
			t.Fatalf("got %d rules, and dumps\n%s\n%s", tree.Rules(), text, dump(t, again))
		}
		for _, rule := range tree.rules {
			domain, way, known := wayTo(rule)
			got := tree.match(domain, way)
			if rule.node.quota == rule {
				got, _ = tree.MatchBucket(domain, way)
			}
			if known && got != rule {
				t.Fatalf("the rule %v is not found, but %v", rule, got)
			}
		}
	})
}

// wayTo returns a descriptor that leads to a rule. known is false if none is easy to find,
// because other values, lists, networks or regular expressions may hide the rule.
func wayTo(rule *Rule) (domain string, way []limiter.Entry, known bool) {
	known = true
	n := rule.node
	for ; n.parent != nil; n = n.parent {
		way = append([]limiter.Entry{n.entry}, way...)
		known = known && n.how != ByNetwork && n.how != ByRegex
	}
	return n.entry.Key, way, known
}
