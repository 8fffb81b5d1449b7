package explain

import (
	"slices"
	"strings"
	"testing"

	"weir/internal/limiter"
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
		if message := errorText(err); message != tt.err || err == nil && !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, %q, want %q, %q", tt.text, got, message, tt.want, tt.err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzParseDescriptor reads what was written by the rules: any two entries that
// have keys.
func FuzzParseDescriptor(f *testing.F) {
	f.Add("user", "alice", "path", "/a,b=c")
	f.Add(`a\,=`, `\\`, "\xff=", "")
	escape := strings.NewReplacer(`\`, `\\`, ",", `\,`, "=", `\=`).Replace
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string) {
		want := []limiter.Entry{{Key: k1, Value: v1}, {Key: k2, Value: v2}}
		text := escape(k1) + "=" + escape(v1) + "," + escape(k2) + "=" + escape(v2)
		got, err := ParseDescriptor(text)
		if k1 == "" || k2 == "" {
			if err == nil {
				t.Errorf("%q: no error, but %q", text, got)
			}
		} else if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	})
}
