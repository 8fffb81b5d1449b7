package descriptors

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

func TestSeriesOfTheConfiguration(t *testing.T) {
	tree := load(t, "{domain: 'a:b', descriptors: [{key: k, value: 10.0.0.1, descriptors: [{key: l, descriptors: [{key: m, value: 1.5, descriptors: [{key: n, rate_limit: {unit: day, requests_per_unit: 1}}]}]}]}]}")
	rule := tree.match("a:b", entries("k=10.0.0.1", "l=x", "m=1.5", "n=y"))
	if got, want := rule.Limits[0].Series.Labels(), (limiter.LabelSet{
		Domain: "a_b", Key1: "k_10_0_0_1", Key2: "l", More: "m_1.5.n", Rule: "k=10.0.0.1|l|m=1.5|n", Limit: "day",
	}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// FuzzSanitize compares sanitize with regular expressions. The result must not contain
// characters that end a statsd name or that Prometheus refuses.
func FuzzSanitize(f *testing.F) {
	for _, s := range []string{"", "user_alice", "10.1.2.3:80", "1234.1.1.1", "1.2.3", "1.2.3.4.5.6.7.8", "255.255.255.2555", "a|b:c", "\xff\xfea\xff", "\xefa\xef\xbf", "é\n\x00\x7f", "\uFFFD"} {
		f.Add(s)
	}
	replace := strings.NewReplacer(":", "_", "|", "_")
	control := regexp.MustCompile("[\x00-\x1f\x7f]")
	ipv4 := regexp.MustCompile(`\d{1,3}(\.\d{1,3}){3}`)
	f.Fuzz(func(t *testing.T, s string) {
		want := control.ReplaceAllString(replace.Replace(strings.ToValidUTF8(s, "_")), "_")
		want = ipv4.ReplaceAllStringFunc(want, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
		got := sanitize(s)
		testenv.Equal(t, got, want, "%q", s)
		if !utf8.ValidString(got) || strings.ContainsAny(got, ":|\n\x00") {
			t.Errorf("%q: %q is no label", s, got)
		}
	})
}
