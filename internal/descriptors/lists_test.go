package descriptors

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// FuzzParseAddress compares with what the standard library takes for an address.
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

func TestLabelsOfLists(t *testing.T) {
	const limit = "rate_limit: {unit: day, requests_per_unit: 1}"
	tree := load(t, "domain: api\ndescriptors:\n"+
		"- {key: plain, value: [a, b], "+limit+"}\n"+
		"- {key: shared, networks: [10.0.0.0/8], share_threshold: true, detailed_metric: true, "+limit+"}\n"+
		"- {key: list, value: [a, b], detailed_metric: true, "+limit+"}\n"+
		"- {key: address, networks: [10.0.0.0/8], value_to_metric: true, "+limit+"}\n"+
		"- {key: path, regex: '/a|/b', value_to_metric: true, "+limit+"}\n")
	for _, test := range []struct{ entry, configured, rule, asked string }{
		{"plain=b", "plain_[a+1]", "plain=[a+1]", ""},
		{"shared=10.1.2.3", "shared_[10_0_0_0/8]", "shared=[10.0.0.0/8]", ""},
		{"list=b", "list_[a+1]", "list=[a+1]", "list_b|"},
		{"address=10.1.2.3", "address_[10_0_0_0/8]", "address=[10.0.0.0/8]", "address_10_1_2_3|"},
		{"path=/b", "path_~/a_/b", `path="~/a|/b"`, "path_/b|"},
	} {
		list := entries(test.entry)
		rule := tree.Match("api", list)
		labels := rule.Limits[0].Series.Labels()
		asked := strings.ReplaceAll(string(rule.AppendLabels(nil, list)), "\x00", "|")
		if labels.Key1 != test.configured || labels.Rule != test.rule || asked != test.asked {
			t.Errorf("%s: got %q, %q and %q, want %+v", test.entry, labels.Key1, labels.Rule, asked, test)
		}
	}
}

const manyLimit = "rate_limit: {unit: minute, requests_per_unit: 5}"

// manyLists holds n networks and n/10 values, each in one list, and 50 regular
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

// someNetwork is one of many, of which three are IPv4 where one is IPv6.
func someNetwork(i int) string {
	if i%4 == 0 {
		return fmt.Sprintf(`"2001:db8:%x::/48"`, i/4)
	}
	return fmt.Sprintf("%d.%d.%d.0/24", 1+i>>16, i>>8&255, i&255)
}

// inLists are descriptors for a Tree of manyLists(n).
func inLists(n int) []lookup {
	last := (n - 2) / 4 * 4
	return []lookup{
		{"IPv4", entries(fmt.Sprintf("address=%d.%d.%d.7", 1+(last-1)>>16, (last-1)>>8&255, (last-1)&255)), true},
		{"IPv6", entries(fmt.Sprintf("address=2001:db8:%x::7", last/4)), true},
		{"IPv4 in IPv6 form", entries("address=::ffff:1.1.1.7"), true},
		{"zone", entries(fmt.Sprintf("address=2001:db8:%x::7%%eth0", last/4)), true},
		{"no network", entries("address=2001:db9::1"), false},
		{"no address", entries("address=nobody"), false},
		{"port", entries("address=1.1.1.7:443"), false},
		{"long and no address", entries("address=" + strings.Repeat("1.", 5000)), false},
		{"value", entries(fmt.Sprintf("user=user-%d", n/10-1)), true},
		{"no value", entries("user=nobody"), false},
		{"first regex", entries("path=/v1/part-0/a/orders"), true},
		{"last regex", entries("path=/v1/part-49/a/items"), true},
		{"no regex", entries("path=/about"), false},
		{"no regex, 10 KB", entries("path=/v1/part-49/" + strings.Repeat("a", 10_000)), false},
		{"no regex, 10 KB of digits", entries("path=/v" + strings.Repeat("1", 10_000)), false},
	}
}

func TestMatchInListsDoesNotAllocate(t *testing.T) {
	const n = 100
	tree := load(t, manyLists(n))
	ask := func(name string, tree *Tree, descriptor []limiter.Entry, want bool) {
		t.Helper()
		if got := tree.Match("api", descriptor) != nil; got != want {
			t.Errorf("%s: matches is %v", name, got)
		}
		if n := testing.AllocsPerRun(10, func() { tree.Match("api", descriptor) }); n != 0 && !testenv.RaceDetector {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	for _, l := range inLists(n) {
		ask(l.name, tree, l.descriptor, l.matches)
	}
	for _, expression := range []string{".*a.*b.*c", "(a|aa)*b", "(.*a){20}b", "[a-z]{1,200}.*[0-9]", "(?i).*(bot|crawler|spider).*"} {
		tree := load(t, "domain: api\ndescriptors: [{key: k, regex: '"+expression+"'}]")
		for _, length := range []int{10, 1000, 10_000} {
			ask(fmt.Sprintf("%s, %d bytes", expression, length), tree, entries("k="+strings.Repeat("a", length)), false)
		}
	}
}

// What the costliest expressions that are allowed take for a long value is bounded.
func TestCostOfRegularExpressions(t *testing.T) {
	tree := load(t, "domain: api\ndescriptors: [{key: k, regex: '(.*a){390}b'}]")
	value := entries("k=" + strings.Repeat("a", 1000))
	testenv.InProcessorTime(t, 200*time.Millisecond, func() {
		if tree.Match("api", value) != nil {
			t.Error("it matches")
		}
	})
}

func TestManyNetworksLoadFast(t *testing.T) {
	files := []File{{"rules.yaml", []byte(manyLists(30_000))}}
	testenv.InProcessorTime(t, 300*time.Millisecond, func() {
		testenv.Must(Load(files, Options{}))(t)
	})
}

// Two files may list values of one key, as long as they are different ones.
func TestListsOfMergedFiles(t *testing.T) {
	const format = "{domain: api, descriptors: [{key: k, value: [%s], metadata: {file: %s}}, {key: k, regex: '%s', metadata: {file: %[2]s}}]}"
	tree := testenv.Must(Load([]File{
		{"1.yaml", fmt.Appendf(nil, format, "a, b", "one", "x.*")},
		{"2.yaml", fmt.Appendf(nil, format, "c, d", "two", "x[0-9]")},
	}, Options{MergeDomains: true}))(t)
	for value, want := range map[string]string{"b": "one", "c": "two", "x1": "one"} {
		if got := tree.Match("api", entries("k="+value)).Metadata["file"]; got != want {
			t.Errorf("%s: got the file %v, want %s", value, got, want)
		}
	}
}
