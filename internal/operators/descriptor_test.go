package operators

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// FuzzExcerpt makes excerpts of arbitrary descriptors and decodes them. Excerpts are bounded in size,
// and texts that are not cut are exact.
func FuzzExcerpt(f *testing.F) {
	long := strings.Repeat("ö", 5000)
	for _, s := range []struct {
		domain, key, value string
		n, size            int
	}{
		{"api", "user", "alice", 1, 128}, {"api", "user", "", 0, 128}, {long, long, long, 100, 128}, {long, "k", long, 3, 256},
		{"\xff", "\xff", "a\xffb", 7, 1024}, {"api", "user", strings.Repeat("x", 127) + "ö", 1, 256}, {"api", "k", strings.Repeat("\x80", 200), 2, 300},
	} {
		f.Add(s.domain, s.key, s.value, s.n, s.size, false)
		f.Add(s.domain, s.key, s.value, s.n, s.size, true)
	}
	f.Fuzz(func(t *testing.T, domain, key, value string, n, size int, hashed bool) {
		n, size = min(max(n, 0), 100), min(max(size, 128), 4096)
		s := Asked{Domain: domain, Key: []byte("w1"), Hashed: hashed}
		for range n {
			s.Entries = append(s.Entries, limiter.Entry{Key: key, Value: value})
		}
		d, kept := s.Excerpt(size), 0
		testenv.Equal(t, len(d.Entries)+d.More, n, "entries")
		want := value
		if hashed && value != "" {
			want = string(limiter.AppendDigest(nil, value))
		}
		cut := d.More > 0 || len(domain) > keptKey
		for _, e := range d.Entries {
			got := e.Bytes()
			kept += len(got.Key) + len(got.Value)
			cut = cut || got.Key != key || got.Value != want
			if !strings.HasPrefix(key, got.Key) || !strings.HasPrefix(want, got.Value) || e.Hashed != (want != value) {
				t.Errorf("got %q, hashed %t, want %q=%q", got, e.Hashed, key, want)
			}
			if utf8.ValidString(value) && e.ValueBase64 != nil {
				t.Errorf("a character of %q is cut apart", value)
			}
		}
		if kept > size {
			t.Errorf("got %d bytes, want %d at most", kept, size)
		}
		testenv.Equal(t, cut, d.Digest != "", "it is cut, with the digest %q", d.Digest)
		testenv.Must(json.Marshal(d))(t)
	})
}

// TestSharedValues checks that an excerpt has a rule's pattern instead of values that share a counter.
func TestSharedValues(t *testing.T) {
	s := Asked{Domain: "api", Entries: []limiter.Entry{{Key: "path", Value: "/files/a"}, {Key: "user", Value: "alice"}}, Patterns: []string{"/files/*"}, Hashed: true}
	got, err := json.Marshal(s.Excerpt(256))
	if want := `{"entries":[{"key":"path","value":"/files/*","shared":true},{"key":"user","value":"#K9gGyX8OAK8aH8Myj6djqQ","hashed":true}]}`; err != nil || string(got) != want {
		t.Errorf("got %s, want %s (error: %v)", got, want, err)
	}
}
