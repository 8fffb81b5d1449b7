package plaintext

import (
	"testing"

	"weir/internal/testenv"
)

func TestLineAndLines(t *testing.T) {
	for _, tt := range []struct{ in, line, lines string }{
		{"", "", ""},
		{`a "quoted" \ word, größer 限`, `a "quoted" \ word, größer 限`, `a "quoted" \ word, größer 限`},
		{"one\ntwo", `one\ntwo`, "one\ntwo"},
		{"\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`, `\x1b[31mred\x1b[0m`},
		{"a\r\tb\x00\x7f", `a\r\tb\x00\x7f`, `a\r\tb\x00\x7f`},
		{"\u009b31m", `\u009b31m`, `\u009b31m`}, // the control sequence introducer as one character
		{"\u202egnp", `\u202egnp`, `\u202egnp`},
		{"\xff\ufffd", `\xff` + "\ufffd", `\xff` + "\ufffd"},
	} {
		testenv.Equal(t, Line(tt.in), tt.line, "Line(%q)", tt.in)
		testenv.Equal(t, Lines(tt.in), tt.lines, "Lines(%q)", tt.in)
	}
}

func TestRedisKey(t *testing.T) {
	for key, want := range map[string]string{
		"w1|api|user=alice|1m": "w1|api|user=alice|1m",
		"w1|api|user=é\xff|1m": `"w1|api|user=\xc3\xa9\xff|1m"`,
		`w1|api|q="a\b"|1m`:    `"w1|api|q=\x22a\x5cb\x22|1m"`,
	} {
		testenv.Equal(t, RedisKey([]byte(key)), want, "RedisKey(%q)", key)
	}
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct{ in, mark, want string }{
		{"", "%", ""},
		{"a+b", "%", "a+b"},
		{"%61%2Cb%ff", "%", "a,b\xff"},
		{"100%, %4, %zz, %+1, %", "%", "100%, %4, %zz, %+1, %"},
		{"%%41", "%", "%A"},
		{`\x22\x5cx41\x`, `\x`, `"\x41\x`},
	} {
		testenv.Equal(t, Decode(tt.in, tt.mark), tt.want, "Decode(%q, %q)", tt.in, tt.mark)
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		in   string
		most int
		want string
	}{{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc... (4 bytes)"}, {"aéb", 2, "a... (4 bytes)"}} {
		testenv.Equal(t, Cut(tt.in, tt.most), tt.want, "Cut(%q, %d)", tt.in, tt.most)
	}
}
