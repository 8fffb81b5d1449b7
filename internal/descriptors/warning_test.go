package descriptors

import (
	"path/filepath"
	"testing"
	"time"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/testenv"
)

func TestWarnings(t *testing.T) {
	compareBeside(t, "testdata/warned", func(tree *Tree) string { return tree.Warnings().Error() + "\n" })
}

// goodFiles reads the rules in examples, config and docs, which have no mistakes, and the files
// at the given paths.
func goodFiles(t *testing.T, further ...string) []File {
	t.Helper()
	paths := testenv.Must(filepath.Glob("../../examples/*/rules"))(t)
	files, _, err := ReadFiles(append(append(paths, "../../config", "../../docs/examples"), further...)...)
	if err != nil || len(paths) == 0 {
		t.Fatalf("found the examples %v, error %v", paths, err)
	}
	return files
}

func TestNoWarnings(t *testing.T) {
	for _, f := range goodFiles(t, "testdata/good/aliases.yaml") {
		testenv.Equal(t, load(t, string(f.Data)).Warnings().Error(), "", "%s: warnings", f.Name)
	}
}

// If many rules lack the same limits, the warnings name some of the rules and count the others.
// The search for such rules takes a small part of the time to load.
func TestManyHiddenLimits(t *testing.T) {
	const limit = "rate_limit: {unit: minute, requests_per_unit: 1}"
	for _, test := range []struct {
		name, rules string
		want        int
		last        string
	}{
		{
			"nothing below", "- {key: tenant, descriptors: [{key: user, " + limit + "}]}\n" + numbered(20_000, "- {key: tenant, value: t%d, "+limit+"}\n"), maxNamed + 1,
			"rules.yaml:104:3: tenant=t100 and 19899 of the rules after it lack limits that a more general one beside them has, too",
		},
		{
			"all in another way", "- {key: tenant, descriptors: [" + numbered(10_000, "{key: user, value: u%d, "+limit+"}, ") + "]}\n" +
				numbered(10_000, "- {key: tenant, value: t%d, descriptors: [{key: user, "+limit+"}]}\n"), 0, "",
		},
		{
			"a wildcard before each", numbered(200, "- {key: tenant, value: '*-%d-*', descriptors: [{key: user, "+limit+"}]}\n") +
				numbered(20_000, "- {key: tenant, value: -%d-, "+limit+"}\n"), maxNamed + 1,
			"rules.yaml:303:3: tenant=-100- and 99 of the rules after it lack limits that a more general one beside them has, too",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLoader(Options{})
			l.files([]File{{Name: "rules.yaml", Data: []byte("domain: api\ndescriptors:\n" + test.rules)}}, strictyaml.MaxFileSize, 0)
			testenv.InProcessorTime(t, time.Second, func() {
				l.tree.warnings = nil
				l.warnOfHidden()
			})
			l.tree.warnings.Sort()
			got, last := l.tree.warnings, ""
			if len(got) > 0 {
				last = got[len(got)-1].String()
			}
			if len(got) != test.want || last != test.last {
				t.Errorf("got %d warnings, want %d; the last is\n%s, want\n%s", len(got), test.want, last, test.last)
			}
		})
	}
}
