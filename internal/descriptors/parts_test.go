package descriptors

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/testenv"
)

// Decoding a file in parts has the same result as decoding it as a whole. Even the locations of
// problems are the same.
func TestDecodeParts(t *testing.T) {
	const head = "domain: api\ndescriptors:\n"
	for _, test := range []struct {
		name, data string
		parts      bool
	}{
		{"list", head + "  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1}\n  - key: b\n  - key: c\n", true},
		{"list as far out as its field", head + "- key: a\n  descriptors:\n  - key: b\n- {key: c}\n", true},
		{"comments and empty lines", "---\n# rules\ndomain: api\ndescriptors:\n\n# list\n  - key: a\n\n# next\n  - key: b\n #\n", true},
		{"wrong fields", head + "  - kye: a\n  - key: b\n  -  rate_limit: {unit: eon}\n     key: c\n", true},
		{"wrong domain", "domian: api\ndescriptors:\n- key: a\n- value: b\n", true},
		{"text like items", head + "  - key: |\n      a\n      - key: x\n  - key: \"b\n      - key: y\"\n  - key: c\n", true},
		{"aliases within an item", head + "- key: a\n  metadata: {x: &x 1, y: *x}\n- key: b\n", true},
		{"no newline at the end", head + "- key: a\n- key: b", true},
		{"blanks at the end", head + "- key: a\n- key: b\n    ", true},

		{"in brackets", "{domain: api,\ndescriptors:\n[{key: a}, {key: b}]}\n", false},
		{"fields after the list", "name: x\ndescriptors:\n- key: a\n- key: b\ndomain: api\n", false},
		{"a field twice", head + "- key: a\ndescriptors:\n- key: b\n", false},
		{"alias of an earlier item", head + "- &a {key: a}\n- {<<: *a, value: b}\n", false},
		{"text that looks like an item", head + "- key: \"a\n- key: x\"\n- key: b\n", false},
		{"an item that is not closed", head + "- {key: a\n- key: b\n", false},
		{"two documents", head + "- key: a\n---\n- key: b\n", false},
		{"the end of a document", head + "- key: a\n...\n- key: b\n", false},
		{"lines of another system", head + "- key: a\r\n- key: b\r\n", false},
		{"lines of one more kind", head + "- key: a\u2028- key: b\n- key: c\n", false},
		{"a tag for all", "%YAML 1.1\n---\n" + head + "- key: a\n- key: b\n", false},
		{"no list", head + "  key: a\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, ahead := range []int{0, 3} {
				testenv.Equal(t, comparePartsToWhole(t, []byte(test.data), 1, ahead), test.parts, "decoded in parts, %d ahead", ahead)
			}
		})
	}
}

// comparePartsToWhole loads a file in both ways, and reports whether it can be read in parts.
func comparePartsToWhole(t *testing.T, data []byte, size, ahead int) bool {
	t.Helper()
	load := func(size, ahead int) (whole bool, outcome string) {
		l := newLoader(Options{})
		if strictyaml.Split(data, "descriptors", size, 0) == nil {
			whole = true
		}
		if !l.files([]File{{Name: "rules.yaml", Data: data}}, size, ahead) {
			return true, ""
		}
		tree, err := l.result()
		if err != nil {
			return whole, err.Error()
		}
		var b strings.Builder
		testenv.OK(t, tree.Dump(&b))
		return whole, b.String() + tree.Warnings().Error()
	}
	isWhole, got := load(size, ahead)
	if isWhole {
		return false
	}
	if _, want := load(strictyaml.MaxFileSize, 0); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	return true
}

func FuzzDecodeParts(f *testing.F) {
	for _, data := range testenv.ReadAll(f, "testdata/good/*", "testdata/bad/*.*", "../../config/*") {
		f.Add(data, uint8(1))
	}
	f.Add([]byte("domain: a\ndescriptors:\n- key: \"x\n- y\"\n- {key: z,\n- a}\n...\n--- b\n"), uint8(9))
	f.Add([]byte("domain: a\ndescriptors:\n  - key: |\n     x\n  - key: >\n     y\n\n  -\n    key: 'z\n\n    '\n"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		comparePartsToWhole(t, data, max(int(size), 1), int(size%4))
	})
}

// Problems of a large file have the correct locations.
func TestLoadLargeFile(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: api\ndescriptors:\n")
	const items = 10_000
	for i := range items {
		fmt.Fprintf(&b, "  - {key: user, value: user-%d}\n", i)
	}
	b.WriteString("  - {key: user, value: user-7}\n  - {kye: x, key: y}\n")
	_, err := Load([]File{{Name: "rules.yaml", Data: []byte(b.String())}}, Options{})
	want := `rules.yaml:10003:5: descriptors[10000]: user=user-7 is already at rules.yaml:10:5: a key and value may be in one rule only
rules.yaml:10004:6: descriptors[10001]: unknown field "kye" (did you mean key?); use `
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if b.Len() <= 2*largePart {
		t.Errorf("the file has %d bytes, want several parts", b.Len())
	}
}
