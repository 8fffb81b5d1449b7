package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

const belowRules = `
domain: api
descriptors:
  - key: user
    below: true
    detailed_metric: true
    rate_limit:
      - {name: minute, unit: minute, requests_per_unit: 3}
      - {name: day, unit: day, requests_per_unit: 90}
    descriptors:
      - {key: path, value: /login, rate_limit: {name: login, unit: hour, requests_per_unit: 2}}
      - {key: path, value: /free, rate_limit: {unlimited: true}}
      - {key: path, value: /export, rate_limit: {name: export, unit: minute, requests_per_unit: 9, replaces: [{name: minute}]}}
      - {key: path, value: /health}
      - key: path
        value: /files/*
        share_threshold: true
        below: true
        shadow_mode: true
        rate_limit: {name: files, unit: hour, requests_per_unit: 1, charge: always}
        descriptors: [{key: method, rate_limit: {name: method, unit: hour, requests_per_unit: 5}}]
  - {rate_limit: {name: rest, unit: second, requests_per_unit: 1}}
`

const flightRules = `
domain: api
descriptors:
  - key: user
    detailed_metric: true
    rate_limit:
      - {name: flight, unit: minute, requests_per_unit: 3, algorithm: concurrency}
      - {name: rate, unit: minute, requests_per_unit: 10}
`

const flightBelowRules = `
domain: api
descriptors:
  - key: user
    below: true
    rate_limit: {unit: minute, requests_per_unit: 3, algorithm: concurrency}
    descriptors:
      - {key: path, rate_limit: {unit: hour, requests_per_unit: 20}}
`

const keylessFlightRules = `
domain: api
descriptors: [{rate_limit: {unit: minute, requests_per_unit: 3, algorithm: concurrency}}]
`

const keylessBelowRules = `
domain: api
descriptors:
  - key: user
    below: true
    rate_limit: {unit: minute, requests_per_unit: 2}
    descriptors: [{rate_limit: {unit: hour, requests_per_unit: 20}}]
`

const replacedRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 3, algorithm: concurrency}
  - key: user
    value: vip
    override: {}
    rate_limit: {unit: minute, requests_per_unit: 3, algorithm: concurrency}
  - key: tenant
    value: t*
    share_threshold: true
    override: {max_requests_per_unit: 50}
    rate_limit: {unit: minute, requests_per_unit: 3}
`

const settleRules = `
domain: api
descriptors:
  - key: user
    below: true
    rate_limit: {unit: minute, requests_per_unit: 10, settle: reservation}
    descriptors:
      - {key: path, rate_limit: {unit: hour, requests_per_unit: 20, algorithm: token_bucket}}
`

// each returns the descriptors in text, which are separated by commas.
func each(text string) (list []Descriptor) {
	for part := range strings.SplitSeq(text, ",") {
		list = append(list, words(part))
	}
	return list
}

// The limits of all levels become hits, the lowest rule first. Each rule has its own counter.
func TestHits(t *testing.T) {
	costly := words("user=alice request_id=r1")
	costly.HitsAddend, costly.HasHitsAddend = 7, true
	five, hour := Override{RequestsPerUnit: 5, Unit: limiter.Day}, Override{RequestsPerUnit: 10, Unit: limiter.Hour}
	month, oddMonths, year := Override{1, limiter.Month, 0}, Override{1, limiter.Month, 5}, Override{1, limiter.Year, 0}
	minute, day := "minute w1|api|user=alice|1m user_alice;", "day w1|api|user=alice|1d user_alice;"
	denied, rate := "flight w1|api|user=alice|x1m user_alice;", "rate w1|api|user=alice|1m user_alice;"
	const unnamed = ` needs an entry "request_id" with a value that names the request in flight`
	for _, test := range []struct {
		opts  Options
		rules string
		asked []Descriptor
		want  []string // the hits, and the error about an invalid value
	}{
		{Options{}, belowRules, each("user=alice"), []string{minute, day}},
		{Options{}, belowRules, each("user=alice path=/login"), []string{"login w1|api|user=alice|path=/login|1h", minute, day}},
		{Options{}, belowRules, each("user=alice path=/cart"), []string{minute, day}},
		{Options{}, belowRules, each("user=alice path=/health"), []string{minute, day}},
		{Options{}, belowRules, each("user=alice path=/free"), []string{minute, day}},
		{Options{}, belowRules, each("user=alice path=/export"), []string{"export w1|api|user=alice|path=/export|1m", day}},
		{Options{}, belowRules, each("user=alice path=/files/a method=GET"), []string{
			"method w1|api|user=alice|path~/files/*|method=GET|1h", "files w1|api|user=alice|path~/files/*|1h always", minute, day,
		}},
		{Options{}, belowRules, each("nobody=x y=z"), []string{"rest w1|api|nobody=x|y=z|1s"}},
		// Each descriptor that passes through a rule hits its counters.
		{Options{}, belowRules, each("user=alice,user=alice path=/cart"), []string{minute, day, minute, day}},
		// If one descriptor replaces a limit, the limit is replaced for all descriptors, and in
		// rules above, too.
		{Options{}, belowRules, each("user=alice path=/export,user=bob path=/cart"), []string{
			"export w1|api|user=alice|path=/export|1m", day, "day w1|api|user=bob|1d user_bob;",
		}},

		// The entry that names the hold is in no key, at any position. A hold costs 1, and is
		// never charged if the request is denied.
		{Options{}, flightRules, []Descriptor{costly}, []string{
			"flight w1|api|user=alice|c1m user_alice; hold", "rate w1|api|user=alice|1m user_alice; cost 7 always",
		}},
		{Options{Charge: limiter.Always}, flightRules, each("request_id=r1 user=alice"), []string{
			"flight w1|api|user=alice|c1m user_alice; hold", "rate w1|api|user=alice|1m user_alice; always",
		}},
		// A request that ends releases its hold, but its start still counts.
		{Options{}, flightRules, []Descriptor{words("request_id=r1 user=alice").refund()}, []string{"flight w1|api|user=alice|c1m user_alice; refund hold"}},
		// Without a name, concurrency limits deny, and other limits count as usual. A refund
		// releases nothing.
		{Options{}, flightRules, each("x=y,user=alice"), []string{denied, rate, "descriptor 1: rule api|user" + unnamed}},
		{Options{}, flightRules, each("request_id= user=alice"), []string{denied, rate, "descriptor 0: rule api|user" + unnamed}},
		{Options{}, flightRules, []Descriptor{words("user=alice request_id=").refund()}, []string{"descriptor 0: rule api|user" + unnamed}},
		// Concurrency limits of a rule above need the name, too, even beside an override.
		{Options{}, flightBelowRules, each("user=alice request_id=r1 path=/"), []string{" w1|api|user=alice|path=/|1h", " w1|api|user=alice|c1m hold"}},
		{Options{}, flightBelowRules, []Descriptor{words("user=alice request_id=r1 path=/").refund()}, []string{" w1|api|user=alice|c1m refund hold"}},
		{Options{}, flightBelowRules, []Descriptor{words("request_id=r1 user=alice path=/").with(five)}, []string{
			" w1|api|user=alice|path=/|1d", " w1|api|user=alice|c1m hold",
		}},
		{Options{}, flightBelowRules, each("user=alice path=/"), []string{
			" w1|api|user=alice|path=/|1h", " w1|api|user=alice|x1m", "descriptor 0: rule api|user|path" + unnamed,
		}},
		{Options{}, flightBelowRules, []Descriptor{words("user=alice path=/").with(five)}, []string{
			" w1|api|user=alice|path=/|1d", " w1|api|user=alice|x1m", "descriptor 0: rule api|user|path" + unnamed,
		}},
		// A request reserves unless it reports use. An entry with a token settles, at any position.
		{Options{Charge: limiter.Always}, settleRules, each("user=alice path=/"), []string{" w1|api|user=alice|path=/|b1h always", " w1|api|user=alice|1m reservation"}},
		{Options{}, settleRules, []Descriptor{costly}, []string{" w1|api|user=alice|1m cost 7 always"}},
		{Options{}, settleRules, each("reservation=x user=alice"), []string{" w1|api|user=alice|1m refund reservation"}},
		{Options{}, settleRules, []Descriptor{words("user=alice reservation=x").refund()}, []string{" w1|api|user=alice|1m refund"}},
		// An override that replaces a concurrency limit counts requests, and refunds work as usual.
		{Options{}, flightRules, []Descriptor{words("request_id=r1 user=alice").with(five)}, []string{" w1|api|user=alice|1d"}},
		{Options{}, flightRules, []Descriptor{words("request_id=r1 user=alice").with(five).refund()}, []string{" w1|api|user=alice|1d refund"}},
		{Options{}, flightBelowRules, []Descriptor{words("request_id=r1 user=alice").with(five)}, []string{" w1|api|user=alice|1d"}},
		{Options{}, keylessFlightRules, []Descriptor{words("request_id=r1 user=alice").with(five)}, []string{" w1|api|user=alice|1d"}},
		{Options{}, keylessFlightRules, []Descriptor{words("request_id=r1 user=alice").with(five).refund()}, []string{" w1|api|user=alice|1d refund"}},
		// Limits of rules above also count, even if the override replaces a rule without a key.
		{Options{}, keylessBelowRules, []Descriptor{words("user=alice path=/").with(five)}, []string{" w1|api|user=alice|path=/|1d", " w1|api|user=alice|1m"}},
		// A judged override has the keys of the rule: without the hold's name, and shared by
		// values.
		{Options{}, replacedRules, []Descriptor{words("user=a").with(hour)}, []string{" w1|api|user=a|1h"}},
		{Options{}, replacedRules, []Descriptor{words("user=vip request_id=1").with(hour)}, []string{" w1|api|user=vip|c1h hold"}},
		{Options{}, replacedRules, []Descriptor{words("user=vip").with(hour)}, []string{" w1|api|user=vip|x1h", "descriptor 0: rule api|user=vip" + unnamed}},
		{Options{}, replacedRules, []Descriptor{words("tenant=t1").with(hour)}, []string{" w1|api|tenant~t*|1h", " w1|api|tenant~t*|1m"}},
		// The key has the full descriptor, whether the override is judged or not.
		{Options{}, judgedRules, []Descriptor{words("trial=a").with(hour)}, []string{" w1|api|trial=a|f1h trial_a; always"}},
		{Options{}, judgedRules, []Descriptor{words("shared=xy").with(hour)}, []string{" w1|api|shared=xy|1h"}},
		// Calendar months apply to overrides, too.
		{Options{CalendarMonths: true}, rules, []Descriptor{words("x=y").with(month)}, []string{" w1|api|x=y|1M@"}},
		{Options{CalendarMonths: true}, rules, []Descriptor{words("x=y").with(year)}, []string{" w1|api|x=y|365d"}},
		{Options{CalendarMonths: true}, rules, []Descriptor{words("x=y").with(oddMonths)}, []string{
			"deny w1|api|x=y|x1d", "descriptor 0: limit: windows of 5 months do not divide the calendar evenly, allowed values of unit_multiplier with algorithm calendar are 1, 2, 3, 4, 6, 12",
		}},
	} {
		var p Plan
		testenv.OK(t, New(test.opts).Prepare(&p, load(t, test.rules), &Request{Domain: "api", Descriptors: test.asked}))
		got := hitsOf(&p)
		if p.Invalid != nil {
			got = append(got, p.Invalid.Error())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: got\n%s\nwant\n%s", test.asked, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
}

// A limit may replace thousands of limits, whose names are in any order.
func TestManyReplacedLimits(t *testing.T) {
	const many = 10_000
	var names, limits strings.Builder
	for i := many; i > 0; i-- {
		fmt.Fprintf(&names, "{name: n%d}, ", i)
		fmt.Fprintf(&limits, "  - {key: k%d, rate_limit: {name: n%[1]d, unit: hour, requests_per_unit: 1}}\n", i)
	}
	tree := load(t, "domain: api\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 5, replaces: ["+names.String()+"]}}\n"+limits.String())
	testenv.InProcessorTime(t, 20*time.Millisecond, func() {
		if got := hitsOf(planned(t, Options{}, tree, each("k1=a,k5000=a,user=a,k10000=a")...)); len(got) != 1 {
			t.Errorf("got %q, want no limit that is replaced", got)
		}
	})
}

// Entries with equal values name the same hold.
func TestNamesOfHolds(t *testing.T) {
	p := planned(t, Options{}, load(t, flightRules), each("user=a request_id=r1,request_id=r1 user=b,user=a request_id=r2")...)
	if a, b, c := string(p.Hits[0].Hold), string(p.Hits[2].Hold), string(p.Hits[4].Hold); a != b || a == c || len(a) != limiter.HoldSize {
		t.Errorf("got %x, %x and %x, want the same twice and another one", a, b, c)
	}
}

// A shared rule without a key has one counter, which differs from the counters of descriptors.
func TestSharedRuleWithoutKey(t *testing.T) {
	tree := load(t, "domain: api\ndescriptors: [{key: \"*\", value: \"*\", share_threshold: true, rate_limit: {unit: second, requests_per_unit: 1}}, "+
		"{share_threshold: true, rate_limit: [{unit: second, requests_per_unit: 1}, {unit: day, requests_per_unit: 1}]}]\n")
	keys := limiter.Keys{Cluster: true}
	got := hitsOf(planned(t, Options{Keys: keys}, tree, words("a=1"), words("b=1 c=2"), words("d="), words("*=x")))
	for i := 2; i < 6; i++ {
		testenv.Equal(t, got[i], got[i%2], "hit %d is on", i)
	}
	if len(got) != 7 || slices.Contains(got[:6], got[6]) || !strings.Contains(got[0], "{") {
		t.Errorf("got %q, want a counter of its own, with a tag, for each limit of both rules", got)
	}
}

// The status shows the tightest limit of all levels; limits in shadow mode come last. The rule
// of the status is the rule at which the descriptor ends.
func TestStatusBelow(t *testing.T) {
	tree := load(t, belowRules)
	for _, test := range []struct {
		descriptor string
		units      uint32
		denied     bool
		want       string
	}{
		{"user=alice path=/login", 1, false, "login false 1 api|user|path=/login"},
		{"user=alice path=/login", 3, true, "login true 0 api|user|path=/login"},
		{"user=alice path=/cart", 1, false, "minute false 2 api|user"},
		{"user=alice path=/cart", 4, true, "minute true 0 api|user"},
		{"user=alice path=/free", 4, true, "minute true 0 api|user|path=/free"},
		{"user=alice path=/export", 4, false, "export false 5 api|user|path=/export"},
		{"user=alice path=/files/a", 3, false, "minute false 0 api|user|path=/files/*"},
		{"x=y", 1, false, "rest false 0 api|(no key)"},
		{"x=y", 2, true, "rest true 0 api|(no key)"},
	} {
		var res Result
		decide(t, New(Options{}), tree, counters{}, &Request{Domain: "api", HitsAddend: test.units, Descriptors: []Descriptor{words(test.descriptor)}}, &res)
		if got := statusOf(res.Statuses[0]); got != test.want || res.Denied != test.denied {
			t.Errorf("%d of %s: got %s, denied %t, want %s, %t", test.units, test.descriptor, got, res.Denied, test.want, test.denied)
		}
	}
}

// A tighter limit is first in shadow mode beside the old one, then is enforced, and then
// replaces the old one, without starting again from 0.
func TestTrialKeepsItsCount(t *testing.T) {
	store := counters{}
	for i, step := range []struct {
		limits     string
		asks, pass int
	}{
		{"rate_limit: [{unit: year, requests_per_unit: 10}, {unit: year, requests_per_unit: 5, shadow_mode: true}]", 4, 4},
		{"rate_limit: [{unit: year, requests_per_unit: 10}, {unit: year, requests_per_unit: 5}]", 2, 1},
		{"rate_limit: [{unit: year, requests_per_unit: 10}, {unit: year, requests_per_unit: 5, shadow_mode: true}]", 2, 2},
		{"rate_limit: {unit: year, requests_per_unit: 5}", 1, 0},
		{"quota_mode: true, rate_limit: {unit: year, requests_per_unit: 8, failure_mode: deny}", 2, 1},
	} {
		tree := load(t, "{domain: api, descriptors: [{key: user, "+step.limits+"}]}")
		for n := range step.asks {
			var res Result
			decide(t, New(Options{}), tree, store, &Request{Domain: "api", Descriptors: []Descriptor{words("user=alice")}}, &res)
			testenv.Equal(t, res.Denied, n >= step.pass, "step %d, request %d: denied", i, n)
		}
	}
}
