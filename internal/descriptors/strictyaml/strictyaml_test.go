package strictyaml

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// recipe is what the tests decode: one field of every kind.
type recipe struct {
	Name  string
	Raw   string
	Hot   bool
	Size  uint64
	Mood  int
	Parts []string
}

var moods = []string{"good", "bad"}

func decode(text string) (recipe, Problems) {
	var r recipe
	var d Decoder
	d.File = "recipe.yaml"
	d.Elsewhere = func(field string) string { return map[string]string{"spoon": "the drawer"}[field] }
	root := d.Parse([]byte(text), "a name and parts")
	if root == nil {
		return r, d.Problems
	}
	d.Fields(root, []string{"name", "raw", "hot", "size", "mood", "parts"}, func(name string, n *yaml.Node) {
		switch name {
		case "name":
			r.Name, _ = d.Text(n)
		case "raw":
			r.Raw, _ = d.Bytes(n)
		case "hot":
			r.Hot = d.Flag(n)
		case "size":
			r.Size = d.Whole(n, 2, 1<<64-1)
		case "mood":
			r.Mood = d.Word(n, moods)
		case "parts":
			d.Items(n, func(n *yaml.Node) {
				part, _ := d.Text(n)
				r.Parts = append(r.Parts, part)
			})
		}
	})
	d.Problems.Sort()
	return r, d.Problems
}

// What rule files hold beyond this is tested where they are decoded.
func TestDecode(t *testing.T) {
	tests := []struct {
		name, text string
		want       recipe
		problems   []string
	}{
		{
			name: "every kind", text: "name: soup\nraw: !!binary /w==\nhot: yes\nsize: 18446744073709551615\nmood: bad\nparts: [a, 2, true]\n",
			want: recipe{Name: "soup", Raw: "\xff", Hot: true, Size: 1<<64 - 1, Mood: 1, Parts: []string{"a", "2", "true"}},
		},
		{
			name: "aliases and merged fields", text: "name: &n soup\nparts: [*n, *n]\n<<: {name: tea, hot: true}\n",
			want: recipe{Name: "soup", Hot: true, Parts: []string{"soup", "soup"}},
		},
		{name: "empty", text: "# nothing\n", problems: []string{"recipe.yaml: the file is empty, a name and parts are required"}},
		{
			name: "every kind is wrong", text: "name: [a]\nraw: !!binary '%'\nhot: 1\nsize: 1\nmood: ugly\nparts: {a: b}\n",
			want: recipe{Size: 2, Mood: -1},
			problems: []string{
				"recipe.yaml:1:7: name: a list is not allowed; use text",
				`recipe.yaml:2:6: raw: !!binary "%" is not base64, which !!binary needs`,
				`recipe.yaml:3:6: hot: "1" is not allowed; use true or false`,
				`recipe.yaml:4:7: size: "1" is not allowed; use a whole number from 2 to 18446744073709551615`,
				`recipe.yaml:5:7: mood: "ugly" is not allowed; use one of good, bad`,
				"recipe.yaml:6:8: parts: a mapping is not allowed; use a list",
			},
		},
		{
			name: "text in quotes", text: "hot: 'yes'\nsize: \"10\"\n",
			want: recipe{Size: 2},
			problems: []string{
				`recipe.yaml:1:6: hot: the text "yes" (in quotes) is not allowed; use true or false`,
				`recipe.yaml:2:7: size: the text "10" (in quotes) is not allowed; use a whole number from 2 to 18446744073709551615`,
			},
		},
		{
			name: "unknown fields", text: "naem: soup\nspoon: 1\nlid: 1\nhot: true\nhot: false\n",
			want: recipe{Hot: true},
			problems: []string{
				`recipe.yaml:1:1: unknown field "naem" (did you mean name?); use one of name, raw, hot, size, mood, parts`,
				`recipe.yaml:2:1: unknown field "spoon" (it belongs to the drawer); use one of name, raw, hot, size, mood, parts`,
				`recipe.yaml:3:1: unknown field "lid"; use one of name, raw, hot, size, mood, parts`,
				`recipe.yaml:5:1: field "hot" is repeated: remove one`,
			},
		},
		{
			name: "an alias repeats a problem", text: "parts: [&p [x], *p, *p]\n",
			want:     recipe{Parts: []string{"", "", ""}},
			problems: []string{"recipe.yaml:1:9: parts[0]: a list is not allowed; use text"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := decode(tt.text)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got, want := problems.Error(), strings.Join(tt.problems, "\n"); got != want {
				t.Errorf("got the problems\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// The parser names the line, but not always the right one.
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
	} {
		_, problems := decode(tt.text)
		want := fmt.Sprintf("recipe.yaml:%d: invalid YAML: %s", tt.line, tt.want)
		if got := problems.Error(); got != want {
			t.Errorf("%q:\n got %s\nwant %s", tt.text, got, want)
		}
	}
}

func TestProblemString(t *testing.T) {
	for want, p := range map[string]Problem{
		"a.yaml:1:2: b[0].c: wrong": {File: "a.yaml", Line: 1, Column: 2, Path: "b[0].c", Message: "wrong"},
		"a.yaml:1: wrong":           {File: "a.yaml", Line: 1, Message: "wrong"},
		"a.yaml: wrong":             {File: "a.yaml", Message: "wrong"},
		"a.yaml:1:2":                {File: "a.yaml", Line: 1, Column: 2},
		"wrong":                     {Message: "wrong"},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Problems are an error that callers can take apart, in the order of places.
func TestProblems(t *testing.T) {
	ps := Problems{{File: "b", Message: "1"}, {File: "a", Line: 2, Message: "2"}, {File: "a", Line: 1, Column: 9, Message: "3"}, {File: "a", Line: 1, Column: 2, Message: "4"}}
	ps.Sort()
	var got Problems
	if err := fmt.Errorf("loading: %w", ps); !errors.As(err, &got) || got.Error() != "a:1:2: 4\na:1:9: 3\na:2: 2\nb: 1" {
		t.Errorf("got %v", got)
	}
}

// Found counts what is not reported again, too: whether a part of a file is
// good does not depend on what was said before.
func TestFound(t *testing.T) {
	var r Reporter
	for range 2 {
		r.Problem(Position{1, 1}, "wrong")
	}
	if r.Found() != 2 || len(r.Problems) != 1 {
		t.Errorf("found %d, reported %d, want 2 and 1", r.Found(), len(r.Problems))
	}
}

func TestFirstProblems(t *testing.T) {
	ps := Problems{{Message: "a"}, {Message: "b"}, {Message: "c"}}
	for n, want := range map[int]string{0: "and 3 more", 1: "a\nand 2 more", 2: "a\nb\nand 1 more", 3: "a\nb\nc", 4: "a\nb\nc"} {
		if got := ps.First(n).Error(); got != want {
			t.Errorf("first %d: got %q, want %q", n, got, want)
		}
	}
	if got := ps.Error(); got != "a\nb\nc" {
		t.Errorf("the problems are now %q", got)
	}
}

func TestParseAll(t *testing.T) {
	for _, tt := range []struct {
		text     string
		roots    int
		problems string
	}{
		{"a: 1\n---\n---\n[b]\n--- null\n", 2, ""},
		{"", 0, ""},
		{"a: 1\n---\nb: [\n", 0, "f:3: invalid YAML: did not find expected node content"},
		{"a: \x00", 0, "f:1: the byte 0x00 is not text; use UTF-8 without control characters"},
	} {
		d := Decoder{Reporter: Reporter{File: "f"}}
		if got := len(d.ParseAll([]byte(tt.text))); got != tt.roots || d.Problems.Error() != tt.problems {
			t.Errorf("%q: %d documents and problems %q, want %d and %q", tt.text, got, d.Problems, tt.roots, tt.problems)
		}
	}
}
