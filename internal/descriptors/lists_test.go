package descriptors

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// FuzzParseAddress compares parseAddress with net/netip.
func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"", "10.0.0.1", "::", "::ffff:1.2.3.4", "fe80::1%eth0", "fe80::1%", "%", "1.2.3.4%a", "1::2%a%b", "::ffff:1.2.3.4%a", "ABCD:ef01:2345:6789:abcd:ef01:255.255.255.255", "1.2.3", "a.b.c.d", "1:2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := netip.ParseAddr(s)
		got, ok := parseAddress(s)
		if ok != (err == nil) || ok && got != want.WithZone("").Unmap() {
			t.Errorf("%q: got %v, %v, want %v, %v", s, got, ok, want, err)
		}
	})
}

// numbered returns n copies of format, whose %d is replaced by the numbers from 0.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

const manyLimit = "rate_limit: {unit: minute, requests_per_unit: 5}"

// manyLists returns rules with a list of n networks, a list of n/10 values and 50 regular
// expressions.
func manyLists(n int) string {
	var b strings.Builder
	b.WriteString("domain: api\ndescriptors:\n- key: address\n  " + manyLimit + "\n  networks:\n  - 0.0.0.0/0\n")
	for i := range n - 1 {
		fmt.Fprintf(&b, "  - %s\n", someNetwork(i))
	}
	b.WriteString("- key: user\n  " + manyLimit + "\n  value:\n")
	for i := range n / 10 {
		fmt.Fprintf(&b, "  - user-%d\n", i)
	}
	for i := range 50 {
		fmt.Fprintf(&b, "- {key: path, regex: '/v[0-9]+/part-%d/[^/]+/(orders|items)', %s}\n", i, manyLimit)
	}
	return b.String()
}

// someNetwork returns the i-th network. Three of four networks are IPv4.
func someNetwork(i int) string {
	if i%4 == 0 {
		return fmt.Sprintf(`"2001:db8:%x::/48"`, i/4)
	}
	return fmt.Sprintf("%d.%d.%d.0/24", 1+i>>16, i>>8&255, i&255)
}

func TestLongValuesDoNotAllocate(t *testing.T) {
	for _, expression := range []string{".*a.*b.*c", "(a|aa)*b", "(.*a){20}b", "[a-z]{1,200}.*[0-9]", "(?i).*(bot|crawler|spider).*"} {
		tree := load(t, "domain: api\ndescriptors: [{key: k, regex: '"+expression+"'}, {key: k, networks: [10.0.0.0/8]}, {key: k, value: '*b*c'}]")
		for _, length := range []int{10, 1000, 10_000} {
			wantNoAllocation(t, tree, entries("k="+strings.Repeat("a", length)))
			wantNoAllocation(t, tree, entries("k="+strings.Repeat("1.", length)))
		}
	}
}

// Matching a value takes at most a few milliseconds, even if the value is long. A value that is
// too long for the patterns leads to a rule that denies.
func TestCostOfLongValues(t *testing.T) {
	long := strings.Repeat("selecunioinserdrodelet/a", 60<<10/24)
	const common = ".*(select|union|insert|drop|delete).*"
	var words, ends strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&words, "'*e%05d*', ", i)
		fmt.Fprintf(&ends, "'x%s*%s', ", long[:i/100], long[:i%100])
	}
	for _, test := range []struct{ name, rule, value, want string }{
		{"a costly expression", "regex: '.*a(.?){480}[yz]'", long, "api|(too long)"},
		{"several expressions", "regex: '.*(a|b).*c'}, {key: k, regex: '.*(e|t).*x'}, {key: k, regex: '(.*t){380}s'", long, "api|(too long)"},
		{"an expression after a wildcard", "regex: '(.*t){380}s'}, {key: k, value: 's*'", long, "api|(too long)"},
		{"many wildcards", "value: [" + words.String() + "]", long, "api|(too long)"},
		{"many ends of wildcards", "value: [" + ends.String() + "]", long, "api|k"},
		{"a common expression", "regex: '" + common + "'", long, "api|(too long)"},
		{"a common expression and a path", "regex: '" + common + "'", long[:2<<10] + "select", `api|k="~` + common + `"`},
		{"many wildcards and a path", "value: [" + words.String() + "]", long[:200] + "e09999", "api|k=[*e00000*+9999]"},
		{"without the prefix", "regex: '/v[0-9]+/(.?){480}'", long, "api|k"},
		{"without the literal", "regex: '.*word(.?){480}'", long, "api|k"},
		{"an exact value", "regex: '.*a(.?){480}[yz]'}, {key: k, value: '" + long + "'", long, "api|k=" + long},
		{"a network", "regex: '.*a(.?){480}[yz]'}, {key: k, networks: ['10.0.0.0/8']", "10.0.0.1", "api|k=[10.0.0.0/8]"},
	} {
		tree := load(t, "domain: api\ndescriptors: [{key: k}, {key: k, "+test.rule+"}]")
		testenv.InProcessorTime(t, 30*time.Millisecond, func() {
			testenv.Equal(t, tree.match("api", entries("k="+test.value)).String(), test.want, "%s", test.name)
		})
	}
}

// The time to load files is proportional to their size.
func TestLargeFilesLoadFast(t *testing.T) {
	for _, test := range []struct {
		name, rules, wrong string
		most               time.Duration
	}{
		{"a list of wildcards", "{key: k, value: [" + numbered(60_000, "'*word%d*', ") + "]}", "", 2 * time.Second},
		{"limits of a rule", "{key: k, rate_limit: [" + numbered(30_000, "{name: n%d, unit: day, requests_per_unit: 1}, ") + "]}", "", 2 * time.Second},
		{"keys of holds", numbered(40_000, "{key: k%d, rate_limit: {unit: day, requests_per_unit: 1, algorithm: concurrency, hold: h%[1]d}}, "), "", 2 * time.Second},
		{"merged mappings", "{key: a, metadata: &m {" + numbered(1000, "k%d: 1, ") + "}}, {key: b, metadata: {<<: [" + strings.Repeat("*m, ", 50_000) + "]}}", "aliases repeat too much", 2 * time.Second},
		{"a long key", "{key: " + strings.Repeat("k", 1<<20) + ", descriptors: [" + numbered(500, "{key: k%d, rate_limit: {unit: day, requests_per_unit: 1}}, ") + "]}", "too long", 2 * time.Second},
		{"wildcards that may hide each other", numbered(20_000, "{key: path, value: '*/%d/*'}, "), "", time.Second},
		{"networks", manyLists(30_000), "", 300 * time.Millisecond},
	} {
		text := test.rules
		if !strings.HasPrefix(text, "domain:") {
			text = "domain: api\ndescriptors: [" + text + "]\n"
		}
		files := []File{{"rules.yaml", []byte(text)}}
		testenv.InProcessorTime(t, test.most, func() {
			if _, err := Load(files, Options{}); (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%s: got %.200v, want %q", test.name, err, test.wrong)
			}
		})
	}
}
