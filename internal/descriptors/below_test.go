package descriptors

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/limiter"
)

const belowRules = `
domain: api
descriptors:
  - key: user
    below: true
    rate_limit: {unit: minute, requests_per_unit: 100}
    descriptors:
      - {key: path, value: /login, rate_limit: {unit: hour, requests_per_unit: 20}}
      - {key: path, value: /free}
      - key: path
        value: /files/*
        share_threshold: true
        below: true
        rate_limit: {unit: hour, requests_per_unit: 9}
        descriptors:
          - {key: method, descriptors: [{key: host, rate_limit: {unit: day, requests_per_unit: 5}}]}
  - {key: user, value: batch, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: zone, descriptors: [{key: path}]}
`

// holding are the rules that apply to a descriptor, with the entries that each counts.
func holding(tree *Tree, way []limiter.Entry) string {
	var all []string
	for r := tree.Match("api", way); r != nil; r = r.Above {
		var counted []string
		for _, e := range r.Counted(way) {
			counted = append(counted, Spell(e))
		}
		all = append(all, fmt.Sprintf("%s %q of %s", r, r.Patterns, strings.Join(counted, "|")))
	}
	return strings.Join(all, "; ")
}

// The limits of rules with below hold further down, too, and their counters are those
// that they have alone.
func TestBelow(t *testing.T) {
	tree := load(t, belowRules)
	for _, test := range []struct{ descriptor, want string }{
		{"user=alice", `api|user [] of user=alice`},
		{"user=alice path=/login", `api|user|path=/login [] of user=alice|path=/login; api|user [] of user=alice`},
		{"user=alice path=/free", `api|user|path=/free [] of user=alice|path=/free; api|user [] of user=alice`},

		// Nothing deeper matches, or a place has no limit of its own.
		{"user=alice path=/cart", `api|user [] of user=alice`},
		{"user=alice path=/login x=y", `api|user [] of user=alice`},
		{"user=alice path=/files/a x=y z=1", `api|user|path=/files/* ["" "/files/*"] of user=alice|path=/files/a; api|user [] of user=alice`},
		{"user=alice path=/files/a method=GET", `api|user|path=/files/* ["" "/files/*"] of user=alice|path=/files/a; api|user [] of user=alice`},
		{
			"user=alice path=/files/a method=GET host=h",
			`api|user|path=/files/*|method|host ["" "/files/*"] of user=alice|path=/files/a|method=GET|host=h; ` +
				`api|user|path=/files/* ["" "/files/*"] of user=alice|path=/files/a; api|user [] of user=alice`,
		},

		// Without below, nothing holds further down.
		{"user=batch path=/login", ""},
		{"zone=a", ""},
		{"path=/login", ""},
	} {
		if got := holding(tree, entries(strings.Fields(test.descriptor)...)); got != test.want {
			t.Errorf("%s: got\n%s, want\n%s", test.descriptor, got, test.want)
		}
	}
}

// So do those of lists, networks and regular expressions, and what is shared above is
// shared below.
func TestBelowOfLists(t *testing.T) {
	tree := load(t, `
domain: api
descriptors:
  - key: from
    networks: [10.0.0.0/8, "2001:db8::/32"]
    share_threshold: true
    below: true
    rate_limit: {unit: minute, requests_per_unit: 100}
    descriptors:
      - {key: path, regex: "/v[0-9]+/.*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 20}}
      - {key: path, values: [/a, /b], descriptors: [{key: user}]}
otherwise: {share_threshold: true, rate_limit: {unit: second, requests_per_unit: 3}}
`)
	const network = `api|from=[10.0.0.0/8+1] ["networks:10.0.0.0/8"] of `
	for _, test := range []struct{ descriptor, want, shared string }{
		{"from=10.1.2.3 path=/v1/a", `api|from=[10.0.0.0/8+1]|path=~/v[0-9]+/.* ["networks:10.0.0.0/8" "regex:/v[0-9]+/.%2A"] of from=10.1.2.3|path=/v1/a; ` + network + "from=10.1.2.3", "[[10.0.0.0/8+1] ~/v[0-9]+/.*]"},
		{"from=2001:db8::1 path=/v1/a x=y", network + `from="2001:db8::1"`, "[[10.0.0.0/8+1]]"},
		{"from=10.1.2.3 path=/b", network + "from=10.1.2.3", "[[10.0.0.0/8+1]]"},
		{"from=11.1.2.3", `api|otherwise ["*"] of `, "[*]"},
	} {
		way := entries(strings.Fields(test.descriptor)...)
		if got := holding(tree, way); got != test.want {
			t.Errorf("%s: got\n%s, want\n%s", test.descriptor, got, test.want)
		}
		if got := fmt.Sprint(tree.Match("api", way).Shared()); got != test.shared {
			t.Errorf("%s: the values %s share a counter, want %s", test.descriptor, got, test.shared)
		}
	}
}

// Otherwise is for what no rule is for, be it without limits.
func TestOtherwise(t *testing.T) {
	for _, test := range []struct{ share, patterns, of string }{{"", "[]", "zone=a|x=y"}, {", share_threshold: true", `["*"]`, ""}} {
		tree := load(t, belowRules+"otherwise: {rate_limit: {unit: second, requests_per_unit: 3}"+test.share+"}\n")
		otherwise := func(of string) string {
			if test.share != "" {
				of = test.of
			}
			return "api|otherwise " + test.patterns + " of " + of
		}
		for descriptor, want := range map[string]string{
			"zone=a x=y":             otherwise("zone=a|x=y"),
			"zone=a":                 otherwise("zone=a"),
			"zone=a path=/":          `api|zone|path [] of zone=a|path=/`,
			"user=batch path=/login": otherwise("user=batch|path=/login"),
			"nobody":                 otherwise("nobody"),
			"":                       otherwise(""),
			"user=alice path=/cart":  `api|user [] of user=alice`,
			"user=alice path=/login": `api|user|path=/login [] of user=alice|path=/login; api|user [] of user=alice`,
		} {
			if got := holding(tree, entries(strings.Fields(descriptor)...)); got != want {
				t.Errorf("%q: got\n%s, want\n%s", descriptor, got, want)
			}
		}
		if got := tree.Match("other", entries("nobody")); got != nil {
			t.Errorf("another domain has %v", got)
		}
	}
}

// One file of a domain may have otherwise, which is for the rules of all.
func TestOtherwiseOfMergedFiles(t *testing.T) {
	tree, err := Load([]File{
		{"a.yaml", []byte("domain: api\ndescriptors: [{key: user, below: true, rate_limit: {unit: day, requests_per_unit: 1}}]\n")},
		{"b.yaml", []byte("domain: api\notherwise: {rate_limit: {unit: day, requests_per_unit: 2}}\n")},
		{"c.yaml", []byte("domain: api\ndescriptors: [{key: path, descriptors: [{key: user}]}]\n")},
	}, Options{MergeDomains: true})
	if err != nil {
		t.Fatal(err)
	}
	for descriptor, want := range map[string]string{
		"user=a x=y": "api|user [] of user=a",
		"path=/":     "api|otherwise [] of path=/",
		"path=/ x=y": "api|otherwise [] of path=/|x=y",
		"x=y":        "api|otherwise [] of x=y",
	} {
		if got := holding(tree, entries(strings.Fields(descriptor)...)); got != want {
			t.Errorf("%q: got %s, want %s", descriptor, got, want)
		}
	}
	if tree.Rules() != 3 || len(tree.Warnings()) > 0 {
		t.Errorf("got %d rules and the warnings %v", tree.Rules(), tree.Warnings())
	}
}

func TestOnlyOtherwiseIsNoEmptyDomain(t *testing.T) {
	if w := load(t, "domain: api\notherwise: {rate_limit: {unit: day, requests_per_unit: 2}}\n").Warnings(); len(w) > 0 {
		t.Errorf("got %v", w)
	}
}

func TestBelowDoesNotAllocate(t *testing.T) {
	tree := load(t, belowRules+"otherwise: {share_threshold: true, rate_limit: {unit: second, requests_per_unit: 3}}\n")
	var keys []byte
	for descriptor, want := range map[string]int{"user=alice path=/files/a method=GET host=h": 3, "user=alice path=/cart": 1, "x=y": 1} {
		way, rules := entries(strings.Fields(descriptor)...), 0
		if n := testing.AllocsPerRun(100, func() {
			keys, rules = keys[:0], 0
			for r := tree.Match("api", way); r != nil; r = r.Above {
				keys = limiter.Keys{}.Append(keys, "api", r.Counted(way), r.Patterns, r.Limits[0])
				rules++
			}
		}); n != 0 || rules != want {
			t.Errorf("%s: %v allocations and %d rules, want none and %d", descriptor, n, rules, want)
		}
	}
}

// A limit that a request brings along is judged by the rule in whose place it comes.
func TestMatchOverride(t *testing.T) {
	for rules, want := range map[string]map[string]string{
		// Nothing is looked up if no rule has anything to say.
		"{key: user, rate_limit: {unit: day, requests_per_unit: 1}}": {"user=a": ""},
		"{key: user, override: {algorithm: sliding_window}}":         {"user=a": "api|user", "user=a path=/": "", "x=y": ""},
		"{key: user, below: true, rate_limit: {unit: day, requests_per_unit: 1}, descriptors: [{key: path}]}": {
			"user=a": "api|user", "user=a path=/": "api|user|path past api|user", "user=a x=y": "api|user past api|user",
			"user=a path=/ x=y": "api|user past api|user", "x=y": "",
		},
	} {
		tree := load(t, "domain: api\ndescriptors: ["+rules+"]\notherwise: {rate_limit: {unit: day, requests_per_unit: 2}}\n")
		for descriptor, want := range want {
			got, way := "", entries(strings.Fields(descriptor)...)
			if r, _ := tree.MatchOverride("api", way); r != nil {
				got = r.String()
				if passed := r.Passed(len(way)); passed != nil {
					got += " past " + passed.String()
				}
			}
			if got != want {
				t.Errorf("%s under %s: got %q, want %q", descriptor, rules, got, want)
			}
		}
	}
}

func TestBurstOfOverride(t *testing.T) {
	for _, test := range []struct {
		ratio        string
		amount, want uint64
	}{
		{"0.1", 10_000, 1000}, {"0.29", 100, 29}, {"0.1", 9, 1}, {"1", 4_294_967_295, 4_294_967_295},
		{"0.999999", 4_294_967_295, 4_294_963_000}, {"0.000001", 1, 1}, {"0.999999", 9_000_000_000, 8_999_991_000}, {"0.5", 3, 1}, {"1", 0, 1},
	} {
		tree := load(t, "domain: api\ndescriptors: [{key: a, override: {algorithm: token_bucket, burst_ratio: "+test.ratio+"}}]\n")
		l, err := tree.Match("api", entries("a=1")).Override.NewLimit(test.amount, limiter.Second, 0)
		if err != nil || l.Burst != test.want {
			t.Errorf("%s of %d: got %v, %v, want %d", test.ratio, test.amount, l.Burst, err, test.want)
		}
	}
}
