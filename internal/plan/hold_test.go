package plan

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"weir/internal/limiter"
)

const flightRules = `
domain: api
descriptors:
  - key: user
    detailed_metric: true
    rate_limit:
      - {name: flight, unit: minute, requests_per_unit: 3, algorithm: concurrency}
      - {name: rate, unit: minute, requests_per_unit: 10}
`

// What names the hold is in no key, of no limit of the rule, wherever it stands.
func TestHitsWithHolds(t *testing.T) {
	tree, digest := load(t, flightRules), sha256.Sum256([]byte("r1"))
	counted, begun := named("user=alice", "request_id=r1"), named("request_id=r1", "user=alice")
	counted.HitsAddend, counted.HasHitsAddend = 7, true
	ended := named("request_id=r1", "user=alice").refund()
	for name, test := range map[string]struct {
		of   Descriptor
		want string
	}{
		"with a cost": {counted, "flight c1m 1 false false, rate 1m 7 false true"},
		"begun":       {begun, "flight c1m 1 false false, rate 1m 1 false false"},
		"ended":       {ended, "flight c1m 1 true false"}, // the rate has counted it
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, h := range planned(t, Options{}, tree, named("nobody=x"), test.of).Hits {
				kind, found := strings.CutPrefix(string(h.Key), "w1|api|user=alice|")
				got = append(got, fmt.Sprintf("%s %s %d %v %v", h.Limit.Name, kind, h.Cost, h.Refund, h.Always))
				isFlight := h.Limit.Name == "flight"
				if !found || isFlight != bytes.Equal(h.Hold, digest[:limiter.HoldSize]) || !bytes.Contains(h.Labels, []byte("user_alice")) {
					t.Errorf("key %q, hold %x, labels %q", h.Key, h.Hold, h.Labels)
				}
			}
			if text := strings.Join(got, ", "); text != test.want {
				t.Errorf("got %s, want %s", text, test.want)
			}
		})
	}
}

func TestChargeOfTheServerIsNotForHolds(t *testing.T) {
	p := planned(t, Options{Charge: limiter.Always}, load(t, flightRules), named("user=alice", "request_id=r1"))
	if p.Hits[0].Always || !p.Hits[1].Always {
		t.Errorf("charged always are %v and %v, want the rate alone", p.Hits[0].Always, p.Hits[1].Always)
	}
}

// A request that cannot say what it holds is refused: who let it pass would never know
// that it is there.
func TestAHoldNeedsAName(t *testing.T) {
	for _, d := range []Descriptor{named("user=alice"), named("user=alice", "request_id="), named("request_id=", "user=alice")} {
		err := New(Options{}).Prepare(new(Result), load(t, flightRules), &Request{Domain: "api", Descriptors: []Descriptor{named("x=y"), d}})
		const want = `descriptor 1: rule api|user needs an entry "request_id" with a value that names the request in flight`
		if err == nil || err.Error() != want {
			t.Errorf("%v: got %v, want %s", d.Entries, err, want)
		}
	}
}

// Limits in flight that hold below need the name, too, and so they do beside a limit
// that the request brings along.
func TestHoldsBelow(t *testing.T) {
	tree := load(t, `
domain: api
descriptors:
  - key: user
    below: true
    rate_limit: {unit: minute, requests_per_unit: 3, algorithm: concurrency}
    descriptors:
      - {key: path, rate_limit: {unit: hour, requests_per_unit: 20}}
`)
	five := Override{RequestsPerUnit: 5, Unit: limiter.Day}
	for name, test := range map[string]struct {
		of   Descriptor
		want string
	}{
		"begun":    {named("user=alice", "request_id=r1", "path=/"), "w1|api|user=alice|path=/|1h 0, w1|api|user=alice|c1m 16"},
		"ended":    {named("user=alice", "request_id=r1", "path=/").refund(), "w1|api|user=alice|c1m 16"},
		"override": {named("request_id=r1", "user=alice", "path=/").with(five), "w1|api|user=alice|path=/|1d 0, w1|api|user=alice|c1m 16"},
	} {
		var got []string
		for _, h := range planned(t, Options{}, tree, test.of).Hits {
			got = append(got, fmt.Sprintf("%s %d", h.Key, len(h.Hold)))
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%s: got %s, want %s", name, text, test.want)
		}
	}
	for _, d := range []Descriptor{named("user=alice", "path=/"), named("user=alice", "path=/").with(five)} {
		if err := New(Options{}).Prepare(new(Result), tree, &Request{Domain: "api", Descriptors: []Descriptor{d}}); err == nil || !strings.Contains(err.Error(), `needs an entry "request_id" with a value`) {
			t.Errorf("got %v, want that the hold needs a name", err)
		}
	}
}

// A limit that a request brings along in the place of one in flight counts all requests
// together, and giving back leaves what it has counted.
func TestOverrideOfWhatIsInFlight(t *testing.T) {
	for name, rules := range map[string]string{
		"rule":           flightRules,
		"below":          strings.Replace(flightRules, "rate_limit", "below: true\n    rate_limit", 1),
		"or without key": "domain: api\ndescriptors:\n- rate_limit: {unit: minute, requests_per_unit: 3, algorithm: concurrency}",
	} {
		tree := load(t, rules)
		d := named("request_id=r1", "user=alice").with(Override{RequestsPerUnit: 5, Unit: limiter.Day})
		if p := planned(t, Options{}, tree, d); len(p.Hits) != 1 || string(p.Hits[0].Key) != "w1|api|user=alice|1d" {
			t.Errorf("%s: got hits %+v, want one whose key has no request_id", name, p.Hits)
		}
		if p := planned(t, Options{}, tree, d.refund()); len(p.Hits) != 0 {
			t.Errorf("%s: got hits %+v of what ends, want none", name, p.Hits)
		}
	}
}
