package console

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
)

// TestChart draws no rates, one, and those of 15 minutes, of which one is too old.
func TestChart(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	if c := draw(nil, now); c.Decisions != "" || c.Area != "" || c.Ticks[0] != 1 || len(c.Minutes) != 0 {
		t.Errorf("got %+v", c)
	}
	c := draw([]api.Rates{
		{At: now.Add(-16 * time.Minute), Decisions: 1},
		{At: now.Add(-15 * time.Minute), Decisions: 100, Denials: 50},
		{At: now, Decisions: 150, Denials: 20},
	}, now)
	if c.Decisions != "0.0,100.0 900.0,50.0" || c.Denials != "0.0,150.0 900.0,180.0" || c.Area != "0.0,200.0 0.0,150.0 900.0,180.0 900.0,200.0" || c.Ticks[0] != 200 {
		t.Errorf("got %+v", c)
	}
	var rates []api.Rates
	for i := range 30 {
		rates = append(rates, api.Rates{At: now.Add(time.Duration(i-30) * 5 * time.Second), Decisions: float64(i)})
	}
	if m := draw(rates, now).Minutes; len(m) != 3 || m[0].Decisions != 26.5 || m[2].Decisions != 5.5 {
		t.Errorf("got %+v", m)
	}
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{number(1234567), "1,234,567"}, {number(uint64(999)), "999"}, {number(1000), "1,000"},
		{rate(0), "0"}, {rate(0.04), "0.0"}, {rate(12.34), "12.3"}, {rate(12345.6), "12,346"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
	for n, want := range map[float64]float64{0: 1, 1: 1, 1.5: 2, 3: 5, 7: 10, 10: 10, 11: 20, 501: 1000} {
		if got := roundUp(n); got != want {
			t.Errorf("roundUp(%v) = %v, want %v", n, got, want)
		}
	}
}

// TestLinksHoldAnyBytes makes links of what is kept of descriptors, and reads them.
func TestLinksHoldAnyBytes(t *testing.T) {
	for _, value := range []string{"alice", "a,b=c\\", " x ", "\xff\xfe\x00", "\x1b[31m", "größer\u202e", `<script>`, "", `\x41`} {
		source := operators.Asked{Domain: "a,=b\xff", Entries: []limiter.Entry{{Key: "us=er", Value: value}, {Key: "path"}}}
		s := showExcerpt("a,=b\xff", source.Excerpt(512))
		link := url.Values{"domain": {s.Domain}, "descriptor": {s.Text}}
		domain, entries, err := ask(link).parse()
		if err != nil || !s.Whole {
			t.Fatalf("%q: got %+v (error: %v) from %s", value, s, err, link)
		}
		again := showWhole(operators.NewDescriptor(domain, entries))
		if domain != "a,=b\xff" || len(again.Entries) != 2 || again.Entries[0].Entry != source.Entries[0] || again.Entries[1].Entry != source.Entries[1] || again.asked != s.asked {
			t.Errorf("%q: got %+v (error: %v) from %s", value, again, err, link)
		}
	}
	long := operators.Asked{Domain: "api", Entries: []limiter.Entry{{Key: "user", Value: strings.Repeat("x", 10_000)}}}
	if s := showExcerpt("api", long.Excerpt(256)); s.Whole || s.Entries[0].Note != "cut, 10000 bytes" {
		t.Errorf("got %+v", s)
	}
	wild := operators.Asked{Domain: "api", Entries: []limiter.Entry{{Key: "path", Value: "/a/1"}}, Patterns: []string{"/a/*"}}
	if s := showExcerpt("api", wild.Excerpt(256)); s.Whole || s.Entries[0].Note != "all that match" {
		t.Errorf("a counter that values share: got %+v, which has no link", s)
	}
	rest := operators.Asked{Domain: "api", Patterns: []string{"*"}}
	if s := showExcerpt("api", rest.Excerpt(256)); s.Whole || len(s.Entries) != 1 || s.Entries[0].Note != "all" {
		t.Errorf("a counter of all descriptors: got %+v, which has no link", s)
	}
	bad := operators.Excerpt{Entries: []operators.ExcerptEntry{{Entry: operators.Entry{Key: "user", Value: "a", ValueBase64: "%"}}}}
	if s := showExcerpt("api", bad); s.Whole || s.Entries[0].Note != "not readable" {
		t.Errorf("no base64: got %+v", s)
	}
	long.Hashed, long.Entries[0].Value = true, "alice"
	if s := showExcerpt("api", long.Excerpt(256)); s.Whole || s.Entries[0].Note != "hash" {
		t.Errorf("got %+v", s)
	}
}

// TestBadForms wants each error to name the field.
func TestBadForms(t *testing.T) {
	for _, tt := range []struct{ field, value, want string }{
		{"domain", "", "a domain and a descriptor are required"},
		{"domain", `a\`, "domain: a backslash at the end"},
		{"descriptor", "=x", "descriptor: entry 1 has no key"},
		{"descriptor", `a\`, "descriptor: a backslash at the end"},
		{"factor", "many", `times: "many" is not a number`},
		{"for", "soon", `for: "soon" is not a duration`},
	} {
		form := url.Values{"domain": {"api"}, "descriptor": {"user=alice"}, "effect": {"amount"}, "reason": {"x"}}
		form.Set(tt.field, tt.value)
		filled := fillIn(form)
		if tt.field == "for" {
			filled.For = tt.value
		}
		if _, err := filled.exception(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s=%s: got %v, want %s", tt.field, tt.value, err, tt.want)
		}
	}
}

// TestNowShowsDenials makes the first page of what was denied.
func TestNowShowsDenials(t *testing.T) {
	alice := operators.Asked{Domain: "api", Entries: []limiter.Entry{{Key: "user", Value: "alice"}}}
	key := operators.Key{Descriptor: alice.Excerpt(256)}
	data := nowPage{Chart: draw(nil, time.Now()), Window: "minute", Servers: "this", Last: []operators.LastDenial{{Key: key}}}
	data.addKeys(operators.Window{Limits: []operators.LimitDenials{{Keys: []operators.KeyDenials{{Key: key, Denied: 3}}}}})
	var text strings.Builder
	if err := pages["now"].ExecuteTemplate(&text, "layout.html", page{Data: data, MayChange: true}); err != nil || strings.Count(text.String(), "alice") < 2 {
		t.Errorf("error %v, got %s", err, text.String())
	}
}
