package descriptors

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// entries returns a descriptor with an entry for each word of the form key=value.
func entries(words ...string) []limiter.Entry {
	var list []limiter.Entry
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		list = append(list, limiter.Entry{Key: key, Value: value})
	}
	return list
}

// match returns the rule that applies to a descriptor with all of MaxWork.
func (t *Tree) match(domain string, entries []limiter.Entry) *Rule {
	work := MaxWork
	rule, _, _ := t.Match(domain, entries, &work)
	return rule
}

// found formats the rules that apply to a descriptor, each with its patterns, its counted
// entries, the values that share its counter, and labels with values of requests. The index of
// the entry that names a hold comes last.
func found(tree *Tree, descriptor []limiter.Entry) string {
	work := MaxWork
	rule, hold, descriptor := tree.Match("api", descriptor, &work)
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

// TestMatch looks up the descriptors in the comments of testdata/match.
func TestMatch(t *testing.T) {
	compareComments(t, "testdata/match", found)
	var zero Tree
	testenv.Equal(t, zero.match("api", entries("user=bob")), nil, "rule of the zero tree")
	testenv.Equal(t, load(t, "domain: api\n").match("other", entries("user=bob")), nil, "rule of an unknown domain")
}

// use finds the rules for a descriptor, as for a request, and appends the keys of their counters
// and the labels of their metrics to buf.
func use(buf []byte, tree *Tree, descriptor []limiter.Entry) []byte {
	work := MaxWork
	rule, _, descriptor := tree.Match("api", descriptor, &work)
	for r := rule; r != nil; r = r.Above {
		for _, l := range r.Limits {
			buf = l.AppendKind(limiter.Keys{}.Append(buf, "api", r.Counted(descriptor), r.Patterns))
		}
		buf = r.AppendLabels(buf, descriptor)
	}
	return buf
}

// wantNoAllocation fails the test if use allocates for a descriptor.
func wantNoAllocation(t *testing.T, tree *Tree, descriptor []limiter.Entry) {
	t.Helper()
	buf := use(nil, tree, descriptor)
	if n := testing.AllocsPerRun(10, func() { buf = use(buf[:0], tree, descriptor) }); n != 0 && !testenv.RaceDetector {
		t.Errorf("%.50q: %v allocations", descriptor, n)
	}
}

// readBelow reads a file, or all files in a directory. The names of the results are relative to
// root.
func readBelow(t testing.TB, root, name string) []File {
	t.Helper()
	files, _, err := ReadFiles(name)
	testenv.OK(t, err)
	for i := range files {
		files[i].Name = strings.TrimPrefix(filepath.ToSlash(files[i].Name), root+"/")
	}
	return files
}

// compareComments loads the files in root, and its directories as files to merge. Their comments
// contain descriptors, each with the expected result of say, which -update writes.
// compareComments also reports rules that share a counter, and descriptors for which matching
// allocates.
func compareComments(t *testing.T, root string, say func(*Tree, []limiter.Entry) string) {
	t.Helper()
	for _, entry := range testenv.Must(os.ReadDir(root))(t) {
		t.Run(entry.Name(), func(t *testing.T) {
			files, keys := readBelow(t, root, filepath.Join(root, entry.Name())), map[string]string{}
			tree := testenv.Must(Load(files, Options{MergeDomains: true}))(t)
			for _, f := range files {
				var b strings.Builder
				for line := range strings.Lines(string(f.Data)) {
					text, want, isCase := strings.Cut(strings.TrimSuffix(line, "\n"), "=>")
					if !isCase {
						b.WriteString(line)
						continue
					}
					descriptor := entries(words(text)...)
					got := say(tree, descriptor)
					fmt.Fprintf(&b, "%s=> %s\n", text, got)
					if want = strings.TrimSpace(want); got != want && !*testenv.Update {
						t.Errorf("%sgot\n%s, want\n%s", text, got, want)
					}
					work := MaxWork
					if _, _, counted := tree.Match("api", descriptor, &work); slices.Equal(counted, descriptor) {
						wantNoAllocation(t, tree, descriptor)
					}
					for r := tree.match("api", descriptor); r != nil; r = r.Above {
						for _, l := range r.Limits {
							key := string(l.AppendKind(limiter.Keys{}.Append(nil, "api", r.Counted(descriptor), r.Patterns)))
							if by, known := keys[key]; known && by != r.String() {
								t.Errorf("%s: the key %s is that of %s, too", text, key, by)
							}
							keys[key] = r.String()
						}
					}
				}
				if *testenv.Update {
					testenv.OK(t, os.WriteFile(filepath.Join(root, f.Name), []byte(b.String()), 0o644))
				}
			}
		})
	}
}

// words splits a comment into words. A quoted word may contain any byte.
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

// manyRules returns rules of all kinds on one level: n values, and n wildcards of each shape.
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

// The cost depends on the depth of the descriptor, not on the number of rules: a search among
// 1,000 wildcards compares as few of them as a search among 10.
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
	if want := 3 * few; many > want { // the numbers have up to three digits instead of one, so there are more shapes
		t.Errorf("%d lookups for 10 rules of each kind, %d for 1,000, want at most %d", few, many, want)
	}
	testenv.Equal(t, longest, 1, "wildcards that are tried one after the other")
}

func BenchmarkMatch(b *testing.B) {
	var buf []byte
	for _, n := range []int{3, 100_000 / 4} {
		tree := load(b, manyRules(n))
		for name, descriptor := range map[string][]limiter.Entry{
			"exact": entries("user=user-2"), "prefix": entries("path=/2/index", "user=alice"), "suffix": entries("path=index.2"),
			"middle": entries("path=/deep/2/x/a-b/2"), "none": entries("path=index.html/nothing-like-it"),
		} {
			b.Run(fmt.Sprintf("rules=%d/%s", tree.Rules(), name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					buf = use(buf[:0], tree, descriptor)
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
