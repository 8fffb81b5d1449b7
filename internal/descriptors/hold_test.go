package descriptors

import (
	"testing"

	"weir/internal/testenv"
)

const flightRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 3, algorithm: concurrency}
    descriptors:
      - {key: path, value: /slow*, rate_limit: [{unit: hour, requests_per_unit: 1, algorithm: concurrency, hold: call}]}
      - {key: path, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: free}
  - {key: only, descriptors: [{key: below}]}
`

func TestMatchHoldDoesNotAllocate(t *testing.T) {
	tree, descriptor := load(t, flightRules), entries("user=bob", "request_id=1")
	if n := testing.AllocsPerRun(100, func() { tree.MatchHold("api", descriptor) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// Another domain may have levels with a key that names holds in this one.
func TestHoldsAreOfTheirDomain(t *testing.T) {
	files := []File{
		{Name: "a.yaml", Data: []byte(flightRules)},
		{Name: "b.yaml", Data: []byte("domain: web\ndescriptors:\n  - {key: request_id, rate_limit: {unit: minute, requests_per_unit: 3}}\n")},
	}
	tree := testenv.Must(Load(files, Options{}))(t)
	if rule, hold := tree.MatchHold("web", entries("request_id=1")); rule == nil || hold >= 0 {
		t.Errorf("got %v and hold %d, want the rule without a hold", rule, hold)
	}
}
