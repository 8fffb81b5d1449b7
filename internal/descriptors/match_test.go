package descriptors

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
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

// found is what a descriptor leads to: its rule and those above that hold, too, each with
// its patterns, the entries that it counts, the values that share its counter and the labels
// that hold values of requests, and
// the place of the entry that names a hold.
func found(tree *Tree, descriptor []limiter.Entry) string {
	rule, hold := tree.MatchHold("api", descriptor)
	if rule == nil {
		return strings.TrimSuffix(fmt.Sprintf("none, hold %d", hold), ", hold -1")
	}
	var all []string
	for r := rule; r != nil; r = r.Above {
		var counted []string
		for _, e := range r.Counted(descriptor) {
			counted = append(counted, Spell(e))
		}
		text := r.String()
		if len(counted) != len(descriptor) || r.IsKeyless() {
			text += " of " + cmp.Or(strings.Join(counted, "|"), "nothing")
		}
		if r.Patterns != nil {
			text += fmt.Sprintf(" by %q, shared by %q", r.Patterns, r.Shared())
		}
		if labels := r.AppendLabels(nil, descriptor); len(labels) > 0 {
			text += " labelled " + strings.ReplaceAll(string(labels), "\x00", "|")
		}
		all = append(all, text)
	}
	if hold >= 0 {
		all = append(all, fmt.Sprintf("hold %d", hold))
	}
	return strings.Join(all, "; ")
}

// TestMatch finds the descriptors in the comments of testdata/match.
func TestMatch(t *testing.T) {
	compareComments(t, "testdata/match/*.yaml", found)
	var zero Tree
	if rule := zero.Match("api", entries("user=bob")); rule != nil {
		t.Errorf("zero tree: got %v", rule)
	}
	if rule := load(t, "domain: api\n").Match("other", entries("user=bob")); rule != nil {
		t.Errorf("unknown domain: got %v", rule)
	}
}

// compareComments loads files in whose comments stand descriptors and, behind them, what
// say returns of each. With -update it writes that. It also reports rules that share a
// counter.
func compareComments(t *testing.T, pattern string, say func(*Tree, []limiter.Entry) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data := testenv.Must(os.ReadFile(name))(t)
			tree, keys := load(t, string(data)), map[string]string{}
			var b strings.Builder
			for line := range strings.Lines(string(data)) {
				text, want, isCase := strings.Cut(strings.TrimSuffix(line, "\n"), "=>")
				if !isCase {
					b.WriteString(line)
					continue
				}
				descriptor := entries(words(text)...)
				got := say(tree, descriptor)
				fmt.Fprintf(&b, "%s=> %s\n", text, got)
				if want = strings.TrimSpace(want); got != want && !*update {
					t.Errorf("%sgot\n%s, want\n%s", text, got, want)
				}
				for r := tree.Match("api", descriptor); r != nil; r = r.Above {
					for _, l := range r.Limits {
						key := string(l.AppendKind(limiter.Keys{}.Append(nil, "api", r.Counted(descriptor), r.Patterns)))
						if by, known := keys[key]; known && by != r.String() {
							t.Errorf("%s: the key %s is that of %s, too", text, key, by)
						}
						keys[key] = r.String()
					}
				}
			}
			if *update {
				testenv.OK(t, os.WriteFile(name, []byte(b.String()), 0o644))
			}
		})
	}
}

// words splits a comment. A word in quotes may hold any byte.
func words(comment string) (list []string) {
	for rest := strings.TrimSpace(strings.TrimPrefix(comment, "#")); rest != ""; rest = strings.TrimSpace(rest) {
		word, _, _ := strings.Cut(rest, " ")
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			word = quoted
		}
		rest = rest[len(word):]
		if text, err := strconv.Unquote(word); err == nil {
			word = text
		}
		list = append(list, word)
	}
	return list
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
			dst = limit.AppendKind(limiter.Keys{}.Append(dst, "api", l.descriptor, rule.Patterns))
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
// a search through 1,000 wildcards looks at no more of them than one through 10.
func TestMatchCostDoesNotGrowWithRules(t *testing.T) {
	shapes := func(n int) (shapes, longest int) {
		w := &load(t, manyRules(n)).domains["api"].patterns["path"].wildcards
		for _, same := range w.byEnds {
			longest = max(longest, len(same))
		}
		return len(w.shapes), longest
	}
	few, _ := shapes(10)
	many, longest := shapes(1000)
	if want := 3 * few; many > want { // one to three digits instead of one
		t.Errorf("%d lookups for 10 rules of each kind, %d for 1,000, want at most %d", few, many, want)
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
		testenv.Must(Load(files, Options{}))(b)
	}
}
