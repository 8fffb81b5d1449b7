package console

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/testenv"
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
	if c.Decisions != "0.0,100.0 900.0,50.0 " || c.Denials != "0.0,150.0 900.0,180.0 " || c.Area != "0.0,200.0 0.0,150.0 900.0,180.0 900.0,200.0 " || c.Ticks[0] != 200 {
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

// TestLinksHoldAnyBytes makes links of what is kept of descriptors, and reads them. What is
// not all of a descriptor has none.
func TestLinksHoldAnyBytes(t *testing.T) {
	for _, value := range []string{"alice", "a,b=c\\", " x ", "\xff\xfe\x00", "\x1b[31m", "größer\u202e", `<script>`, "", `\x41`} {
		source := operators.Asked{Domain: "a,=b\xff", Entries: []limiter.Entry{{Key: "us=er", Value: value}, {Key: "path"}}}
		s := kept("a,=b\xff", source.Excerpt(512))
		domain, entries, err := read(url.Values{"domain": {s.Domain}, "descriptor": {s.Text}})
		if err != nil || s.Lacks != "" || domain != "a,=b\xff" || !slices.Equal(entries, source.Entries) {
			t.Errorf("%q: got %+v, %q %q (error: %v)", value, s, domain, entries, err)
		}
	}
	alice := []limiter.Entry{{Key: "user", Value: "alice"}}
	for _, tt := range []struct {
		asked operators.Asked
		want  string
	}{
		{operators.Asked{Entries: alice}, `<span class="descriptor"><a href="/console/explain?domain=api&amp;descriptor=user%3dalice">user=alice</a></span>`},
		{operators.Asked{Entries: []limiter.Entry{{Key: "user", Value: strings.Repeat("x", 10_000)}}}, "xxx… <small>(cut, digest "},
		{operators.Asked{Entries: alice, Patterns: []string{"a*"}}, `<span class="descriptor">user=a* <small>(all that match)</small></span>`},
		{operators.Asked{Patterns: []string{"*"}}, `<span class="descriptor"> <small>(all)</small></span>`},
		{operators.Asked{Entries: alice, Hashed: true}, " <small>(hash)</small></span>"},
	} {
		var text strings.Builder
		testenv.OK(t, layout.ExecuteTemplate(&text, "descriptor", kept("api", tt.asked.Excerpt(256))))
		if !strings.Contains(text.String(), tt.want) {
			t.Errorf("got %s, want %s", &text, tt.want)
		}
	}
}

// TestBadForms wants each error to name the field.
func TestBadForms(t *testing.T) {
	for _, tt := range []struct{ field, value, want string }{
		{"domain", "", "a domain and a descriptor are required"},
		{"domain", `a\`, "domain: a backslash at the end"},
		{"descriptor", "=x", "descriptor: entry 1 has no key"},
		{"factor", "many", `times: "many" is not a number`},
		{"for", "soon", `for: "soon" is not a duration`},
	} {
		form := url.Values{"domain": {"api"}, "descriptor": {"user=alice"}, "effect": {"amount"}, "factor": {"2x"}, "for": {"1h"}, "reason": {"x"}}
		if _, err := exception(form); err != nil {
			t.Errorf("a good form: %v", err)
		}
		form.Set(tt.field, tt.value)
		if _, err := exception(form); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s=%s: got %v, want %s", tt.field, tt.value, err, tt.want)
		}
	}
}
