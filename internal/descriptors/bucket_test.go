package descriptors

import (
	"fmt"
	"testing"

	"weir/internal/limiter"
)

// The entries of a bucket ID lead to a rule in any order, and addresses become canonical. No descriptor
// leads to such a rule.
func TestMatchBucket(t *testing.T) {
	const quota = "quota_service: true, rate_limit: {unit: second, requests_per_unit: 6}"
	tree := load(t, `{domain: api, descriptors: [
		{key: tenant, value: blocked, rate_limit: {unit: day, requests_per_unit: 1}},
		{key: tenant, descriptors: [{key: path, value: /a*, share_threshold: true, `+quota+`}, {key: net, networks: ["2001:db8::/32"], `+quota+`}]},
		{key: path, descriptors: [{key: tenant, `+quota+`}]},
	]}`)
	for _, test := range []struct {
		id   []limiter.Entry
		want string
	}{
		{[]limiter.Entry{{Key: "path", Value: "/ab"}, {Key: "tenant", Value: "x"}}, "tenant|path=/a* [{tenant x} {path /ab}]"},
		{[]limiter.Entry{{Key: "tenant", Value: "x"}, {Key: "path", Value: "/b"}}, "path|tenant [{path /b} {tenant x}]"},
		{[]limiter.Entry{{Key: "net", Value: "2001:DB8::1"}, {Key: "tenant", Value: "x"}}, "tenant|net=\"[2001:db8::/32]\" [{tenant x} {net 2001:db8::1}]"},
		{[]limiter.Entry{{Key: "tenant", Value: "blocked"}}, "nothing"},
		{[]limiter.Entry{{Key: "tenant", Value: "x"}, {Key: "path", Value: "/b"}, {Key: "user"}}, "nothing"},
		{nil, "nothing"},
	} {
		got := "nothing"
		if r, ordered := tree.MatchBucket("api", test.id); r != nil {
			got = fmt.Sprint(r.Way(), " ", ordered)
		}
		work := MaxWork
		if r, _, _ := tree.Match("api", test.id, &work); got != test.want || r != nil && r.node.quota == r {
			t.Errorf("%v leads to %s, want %s; as a descriptor to %v", test.id, got, test.want, r)
		}
	}
}
