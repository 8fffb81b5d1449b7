package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/testenv"
)

func TestParseDescriptor(t *testing.T) {
	tests := []struct {
		text string
		want []limiter.Entry
		err  string
	}{
		{text: "user=alice", want: []limiter.Entry{{Key: "user", Value: "alice"}}},
		{text: "user=alice,path=/login", want: []limiter.Entry{{Key: "user", Value: "alice"}, {Key: "path", Value: "/login"}}},
		{text: "user", want: []limiter.Entry{{Key: "user"}}},
		{text: "user=,path", want: []limiter.Entry{{Key: "user"}, {Key: "path"}}},
		{text: " user = alice ", want: []limiter.Entry{{Key: " user ", Value: " alice "}}},
		{text: "q=a=b==", want: []limiter.Entry{{Key: "q", Value: "a=b=="}}},
		{text: `q=a\,b,p=\\`, want: []limiter.Entry{{Key: "q", Value: "a,b"}, {Key: "p", Value: `\`}}},
		{text: `a\=b=c\=d`, want: []limiter.Entry{{Key: "a=b", Value: "c=d"}}},
		{text: "q=\xff", want: []limiter.Entry{{Key: "q", Value: "\xff"}}},
		{text: `a\x3db=\x2c\xFF\x00\\x41`, want: []limiter.Entry{{Key: "a=b", Value: ",\xff\x00\\x41"}}},
		{text: `q=\é`, want: []limiter.Entry{{Key: "q", Value: "é"}}},

		{text: "", err: "entry 1 has no key"},
		{text: "=alice", err: "entry 1 has no key"},
		{text: "user=alice,", err: "entry 2 has no key"},
		{text: "user=alice,,path=/", err: "entry 2 has no key"},
		{text: `user=alice\`, err: `a backslash at the end, write \\ for one`},
		{text: `user=\x`, err: `\x needs two hexadecimal digits, such as \x0a`},
		{text: `user=\x0`, err: `\x needs two hexadecimal digits, such as \x0a`},
		{text: `user=\x0g`, err: `\x needs two hexadecimal digits, such as \x0a`},
	}
	for _, tt := range tests {
		got, err := ParseDescriptor(tt.text)
		if !slices.Equal(got, tt.want) || fmt.Sprint(err) != cmp.Or(tt.err, "<nil>") {
			t.Errorf("%q: got %q, %v, want %q, %q", tt.text, got, err, tt.want, tt.err)
		}
	}
}

func TestFormatDescriptor(t *testing.T) {
	for _, tt := range []struct {
		entries []limiter.Entry
		want    string
	}{
		{[]limiter.Entry{{Key: "user", Value: "alice"}, {Key: "path", Value: "/login?a=b"}}, "user=alice,path=/login?a=b"},
		{[]limiter.Entry{{Key: "user"}}, "user"},
		{[]limiter.Entry{{Key: "a=b,c", Value: `d,e\f=`}}, `a\=b\,c=d\,e\\f=`},
		{[]limiter.Entry{{Key: "-h", Value: "-1"}}, `\-h=-1`},
		{[]limiter.Entry{{Key: "user", Value: "o'brien größer"}}, `user=o\x27brien größer`},
		{[]limiter.Entry{{Key: "q", Value: "\x1b[31m\n\x00\xff\u202e\u00a0\ufffd"}}, `q=\x1b[31m\x0a\x00\xff\xe2\x80\xae\xc2\xa0\xef\xbf\xbd`},
	} {
		testenv.Equal(t, FormatDescriptor(tt.entries), tt.want, "%q", tt.entries)
	}
	testenv.Equal(t, FormatDomain("-a'\\,=\n"), `\-a\x27\\,=\x0a`, "domain")
}

func TestQuote(t *testing.T) {
	for argument, want := range map[string]string{"a b": "'a b'", "": "''", "it's": `'it'\''s'`, "user=alice": "user=alice"} {
		testenv.Equal(t, Quote(argument), want, "quoted")
	}
}

// FuzzFormat formats arbitrary entries as one line of plain text, and parses the line.
func FuzzFormat(f *testing.F) {
	f.Add("api", "user", "alice", "path", "/a,b=c")
	f.Add("-\xff", `\`, `\x41`, "-", "")
	f.Add("\u202e", "\x00\n'", "\x1b[31m", "\xff=", strings.Repeat("\xc3", 10_000))
	f.Fuzz(func(t *testing.T, domain, k1, v1, k2, v2 string) {
		text := FormatDomain(domain)
		if got, err := ParseDomain(text); err != nil || got != domain {
			t.Errorf("domain %s: got %q, %v, want %q", text, got, err, domain)
		}
		isPlain(t, text)
		if k1 == "" || k2 == "" {
			return
		}
		want := []limiter.Entry{{Key: k1, Value: v1}, {Key: k2, Value: v2}}
		text = FormatDescriptor(want)
		if got, err := ParseDescriptor(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
		isPlain(t, text)
	})
}

// isPlain fails the test unless text is one line that can be in single quotes and is not a flag.
func isPlain(t *testing.T, text string) {
	if !utf8.ValidString(text) || plaintext.Line(text) != text || strings.Contains(text, "'") || strings.HasPrefix(text, "-") {
		t.Errorf("got %q", text)
	}
}
