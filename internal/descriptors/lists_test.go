package descriptors

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

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

func TestLongValuesDoNotAllocate(t *testing.T) {
	for _, expression := range []string{".*a.*b.*c", "(a|aa)*b", "(.*a){20}b", "[a-z]{1,200}.*[0-9]", "(?i).*(bot|crawler|spider).*"} {
		tree := load(t, "domain: api\ndescriptors: [{key: k, regex: '"+expression+"'}, {key: k, networks: [10.0.0.0/8]}, {key: k, value: '*b*c'}]")
		for _, length := range []int{10, 1000, 10_000} {
			wantNoAllocation(t, tree, entries("k="+strings.Repeat("a", length)))
			wantNoAllocation(t, tree, entries("k="+strings.Repeat("1.", length)))
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
