package descriptors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// Each file of testdata/warned loads with the warnings in the .txt file beside it.
func TestWarnings(t *testing.T) {
	names, err := filepath.Glob("testdata/warned/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("found %v, %v", names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(strings.TrimSuffix(name, ".yaml") + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			if got := load(t, string(data)).Warnings().Error() + "\n"; got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// Rules that come as their author means them cause no warning.
func TestNoWarnings(t *testing.T) {
	files, _, err := ReadFiles("testdata/good/aliases.yaml", "../../config", "../../examples/envoy/rules")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if w := load(t, string(f.Data)).Warnings(); len(w) > 0 {
			t.Errorf("%s: %v", f.Name, w)
		}
	}
}

// A name may be given in one file and be replaced in another, and one file without
// rules does not matter where another has some.
func TestWarningsOfMergedFiles(t *testing.T) {
	tree, err := Load([]File{
		{Name: "a.yaml", Data: []byte("domain: api\n")},
		{Name: "b.yaml", Data: []byte("domain: api\ndescriptors:\n- {key: a, value: x*, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: base}, {name: bass}]}}\n")},
		{Name: "c.yaml", Data: []byte("domain: api\ndescriptors:\n- {key: b, rate_limit: {unit: day, requests_per_unit: 1, name: base}}\n- {key: a, value: xy*}\n")},
		{Name: "d.yaml", Data: []byte("domain: shop\ndescriptors:\n- {key: b, rate_limit: {unit: day, requests_per_unit: 1, name: bass}}\n")},
	}, Options{MergeDomains: true})
	if err != nil {
		t.Fatal(err)
	}
	const want = `b.yaml:3:101: descriptors[0].rate_limit.replaces[1].name: no limit of the domain "api" has the name "bass", so nothing is replaced
c.yaml:4:3: descriptors[1]: never reached, x* at b.yaml:3:3 matches all of it and comes first`
	if got := tree.Warnings().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// However many wildcards there are, looking for hidden ones must not hold up a load.
func TestManyWildcardsLoadFast(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("domain: api\ndescriptors:\n")
	for i := range 20_000 {
		fmt.Fprintf(&rules, "- {key: path, value: '*/%d/*'}\n", i)
	}
	testenv.InProcessorTime(t, time.Second, func() { load(t, rules.String()) })
}
