package strictyaml

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// The tests of packages descriptors and limittest cover the rest of the package, with files of
// rules and of tests.

// The line in the parser's error is not always correct, but the line of the problem must be.
func TestLinesOfSyntaxErrors(t *testing.T) {
	const quote = "; a value that begins with * or & must be in quotes"
	for _, tt := range []struct {
		text string
		line int
		want string
	}{
		{"name: *\nhot: yes", 1, "did not find expected alphabetic or numeric character" + quote},
		{"hot: yes\nname: *.zip\nhot: yes", 2, "did not find expected alphabetic or numeric character" + quote},
		{"hot: yes\nname: *soup\nsize: 3", 2, "unknown anchor" + quote},
		{"hot: yes\nname: *soup*\nsize: 3", 2, "did not find expected alphabetic or numeric character" + quote},
		{"name: {a\nhot: yes", 1, "did not find expected ',' or '}'"},
		{"hot: yes\nname: [a\nsize: 3", 2, "did not find expected ',' or ']'"},
		{"hot: yes\nname: }\nsize: 3", 2, "did not find expected node content"},
		{"hot: yes\nname: !a!b c\nsize: 3", 2, "found undefined tag handle"},
		{"%YAML 1.1\n%YAML 1.1\n---\nhot: yes", 2, "found duplicate %YAML directive"},
		{"hot: yes\nname: 'it's'\nsize: 3", 2, "did not find expected key"},
		{"hot: yes\nmood:\n  good: 1\n  bad: 2\n sad: 3\nsize: 3", 5, "did not find expected key"},
		{"hot: yes\nparts:\n  - a\n  - b\n  - c\n  size: 3\nname: a", 6, "did not find expected '-' indicator"},
		{"hot: yes\nmood:\n  - good: 1\n    bad: 'it's'\n  - good: 2", 4, "did not find expected key"},
		{"hot: yes\nname: a: b\nsize: 3", 2, "mapping values are not allowed in this context"},
		{"hot: yes\nname: @a\nsize: 3", 2, "found character that cannot start any token"},
		{"hot: yes\nparts:\n\t- a", 3, "found character that cannot start any token; the line begins with a tab, indent with spaces"},
		{"hot: yes\nmood:\n  good: 1\n \tbad: 2", 4, "found a tab character that violates indentation; the line begins with a tab, indent with spaces"},
		{"hot: yes\n---\nname: a\n- b\nsize: 3", 4, "did not find expected key"},
		{"mail:\n  domain: example.com\n  password: [swordfish\n", 3, "did not find expected ',' or ']'"},
	} {
		d := Decoder{Reporter: Reporter{File: "recipe.yaml"}}
		want := fmt.Sprintf("recipe.yaml:%d: invalid YAML: %s", tt.line, tt.want)
		if d.Parse([]byte(tt.text), "a name"); d.Problems.Error() != want || d.Problems[0].Excerpt != "" {
			t.Errorf("%q:\n got %s\nwant %s", tt.text, d.Problems, want)
		}
	}
}

// A syntax error in a file of rules has an excerpt of bounded length without control characters.
func TestExcerpt(t *testing.T) {
	d := Decoder{}
	d.Parse([]byte("domain: api\r\ndescriptors:\n  - key: user\n\trate_limit: \u202e"+strings.Repeat("x", 200)+"\n# end\n# more\n"), "a name")
	want := "     2 | descriptors:\n     3 |   - key: user\n >   4 | \\trate_limit: \\u202e" + strings.Repeat("x", 84) + "... (216 bytes)\n     5 | # end\n"
	testenv.Equal(t, d.Problems[0].Excerpt, want, "excerpt")
}

func TestFirstProblems(t *testing.T) {
	ps := Problems{{Message: "a"}, {Message: "b"}, {Message: "c"}}
	for n, want := range map[int]string{0: "and 3 more", 1: "a\nand 2 more", 2: "a\nb\nand 1 more", 3: "a\nb\nc", 4: "a\nb\nc"} {
		testenv.Equal(t, ps.First(n).Error(), want, "first %d", n)
	}
	testenv.Equal(t, ps.Error(), "a\nb\nc", "the problems")
}
