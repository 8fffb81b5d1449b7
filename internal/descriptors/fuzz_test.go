package descriptors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/limiter"
)

// FuzzLoad feeds files of any bytes: nothing panics, the outcome is a tree or
// problems, and always the same; and a tree can be searched and dumped.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*", "testdata/bad/*.*", "testdata/bad/*/*", "../../config/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			f.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, []byte("domain: api\ndescriptors:\n- key: path\n"))
		}
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
			domain, way := wayTo(rule)
			if got := tree.Match(domain, way); got != rule {
				t.Fatalf("the rule %v is not found, but %v", rule, got)
			}
		}
	})
}

// wayTo returns the descriptor that is spelled as the rule is. As exact values
// win, it leads to the rule.
func wayTo(rule *Rule) (domain string, way []limiter.Entry) {
	n := rule.node
	for ; n.parent != nil; n = n.parent {
		way = append([]limiter.Entry{n.entry}, way...)
	}
	return n.entry.Key, way
}

// naive finds the rule for a descriptor by what docs/rules.md says, in the list
// of all rules in the order of the file.
type naive []naiveNode

type naiveNode struct {
	key, value string
	children   naive
}

func (list naive) match(way []limiter.Entry) (path string, ok bool) {
	if len(way) == 0 {
		return "", false
	}
	wildcard := func(n naiveNode) bool {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(n.value), `\*`, `(?s:.*)`)
		return strings.Contains(n.value, "*") && regexp.MustCompile("^"+pattern+"$").MatchString(way[0].Value)
	}
	for _, fits := range []func(n naiveNode) bool{
		func(n naiveNode) bool { return n.value == way[0].Value },
		wildcard,
		func(n naiveNode) bool { return n.value == "" },
	} {
		for _, n := range list {
			if n.key != way[0].Key || !fits(n) {
				continue
			}
			here := "|" + n.key + "=" + n.value
			if len(way) == 1 {
				return here, len(n.children) == 0
			}
			rest, ok := n.children.match(way[1:])
			return here + rest, ok
		}
	}
	return "", false
}

// naiveTree reads nodes out of text: lines of key=value, each as many levels
// down as it has blanks before it. It skips what would be refused.
func naiveTree(text string) naive {
	root := naiveNode{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		entry := strings.TrimLeft(line, " ")
		parent := &root
		for range len(line) - len(entry) {
			if len(parent.children) > 0 {
				parent = &parent.children[len(parent.children)-1]
			}
		}
		key, value, _ := strings.Cut(entry, "=")
		twin := false
		for _, n := range parent.children {
			twin = twin || n.key == key && n.value == value
		}
		if key != "" && !twin {
			parent.children = append(parent.children, naiveNode{key: key, value: value})
		}
	}
	return root.children
}

func (list naive) yaml() string {
	items := make([]string, len(list))
	for i, n := range list {
		items[i] = fmt.Sprintf("{key: %q, value: %q, descriptors: [%s]}", n.key, n.value, n.children.yaml())
	}
	return strings.Join(items, ", ")
}

// FuzzMatch compares Match with the naive way to search.
func FuzzMatch(f *testing.F) {
	f.Add("user\nuser=a*\nuser=alice\n path=/login\n path\npath=*x*y\n", "user=alice\npath=/login")
	f.Add("h=*.com\nh=a*\nh=*a*\nh=*\nh=a*b*c\nh=a**c\n", "h=abbc")
	f.Add("h=*b\nh=a*\nh\n x=**\n", "h=\nx=")
	f.Add("a_b=c\na=b_c\na=*_c\n", "a=b_c")
	f.Fuzz(func(t *testing.T, rules, descriptor string) {
		// Only printable ASCII: what else YAML can spell is FuzzLoad's part.
		if strings.ContainsFunc(rules+descriptor, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' }) {
			return
		}
		list := naiveTree(rules)
		tree, err := Load([]File{{"rules.yaml", []byte("{domain: api, descriptors: [" + list.yaml() + "]}")}}, Options{})
		if err != nil {
			if strings.Contains(err.Error(), "nested too deep") {
				return
			}
			t.Fatalf("loading %s: %v", list.yaml(), err)
		}
		way := entries(strings.Split(descriptor, "\n")...)
		want, ok := list.match(way)
		rule := tree.Match("api", way)
		if (rule != nil) != ok {
			t.Fatalf("%v in %s: got %v, want %s, %v", way, list.yaml(), rule, want, ok)
		}
		if rule == nil {
			return
		}
		_, found := wayTo(rule)
		got := ""
		for _, e := range found {
			got += "|" + e.Key + "=" + e.Value
		}
		if got != want {
			t.Fatalf("%v in %s: got %s, want %s", way, list.yaml(), got, want)
		}
	})
}
