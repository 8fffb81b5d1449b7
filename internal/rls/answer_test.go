package rls

import (
	"fmt"
	"strings"
	"testing"
)

const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: user
    value: root
    rate_limit: {unlimited: true}
  - key: user
    value: friend
  - key: path
    rate_limit: {unit: hour, requests_per_unit: 3, name: paths}
  - key: nobody
    rate_limit: {unit: day, requests_per_unit: 0}
  - key: tried
    rate_limit: {unit: second, requests_per_unit: 1}
    shadow_mode: true
  - key: model
    rate_limit: {unit: week, requests_per_unit: 1}
    quota_mode: true
  - key: vip
    rate_limit: {unit: month, requests_per_unit: 100, replaces: [{name: paths}]}
  - key: free
    rate_limit: {unlimited: true, replaces: [{name: paths}]}
  - key: tokens
    rate_limit: {unit: year, requests_per_unit: 100}
`

// d is a descriptor of one entry in text format; more are its other fields.
func d(key, value string, more ...string) string {
	return fmt.Sprintf("descriptors {entries {key: %q value: %q} %s} ", key, value, strings.Join(more, " "))
}

const (
	ok        = "overall_code: OK "
	over      = "overall_code: OVER_LIMIT "
	none      = "statuses {code: OK} "
	unlimited = "statuses {code: OK limit_remaining: 4294967295} "
	api       = "domain: 'api' "
)

// status is one of a limit, in text format; seconds 0 are not told.
func status(code, limit string, remaining, seconds int) string {
	reset := ""
	if seconds > 0 {
		reset = fmt.Sprintf("duration_until_reset {seconds: %d}", seconds)
	}
	return fmt.Sprintf("statuses {code: %s current_limit {%s} limit_remaining: %d %s} ", code, limit, remaining, reset)
}

// The statuses of the rules above.
func user(code string, remaining int) string {
	return status(code, "requests_per_unit: 2 unit: MINUTE", remaining, 30)
}

func path(code string, remaining int) string {
	return status(code, "requests_per_unit: 3 unit: HOUR name: 'paths'", remaining, 30)
}

func tried(remaining int) string {
	return status("OK", "requests_per_unit: 1 unit: SECOND", remaining, 1)
}

func model(code string, remaining int) string {
	return status(code, "requests_per_unit: 1 unit: WEEK", remaining, 388830)
}

func vip(remaining int) string {
	return status("OK", "requests_per_unit: 100 unit: MONTH", remaining, 302430)
}

func tokens(code string, remaining int) string {
	return status(code, "requests_per_unit: 100 unit: YEAR", remaining, 11966430)
}

// talk is requests, one after the other, and what is answered.
type talk struct {
	name  string
	steps []step
}

type step struct{ request, want string }

// expectTalks has each talk with a service of its own.
func expectTalks(t *testing.T, rules string, talks []talk) {
	t.Helper()
	for _, talk := range talks {
		t.Run(talk.name, func(t *testing.T) {
			conn := serve(t, options(t, rules).service())
			for _, s := range talk.steps {
				expect(t, conn, s.request, s.want)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	addend := func(n uint64) string { return fmt.Sprintf("hits_addend {value: %d}", n) }
	expectTalks(t, rules, []talk{
		{"up to the limit and over", []step{
			{api + d("user", "a"), ok + user("OK", 1)},
			{api + d("user", "a"), ok + user("OK", 0)},
			{api + d("user", "a"), over + user("OVER_LIMIT", 0)},
			{api + d("user", "b"), ok + user("OK", 1)},
		}},
		{"nothing applies", []step{
			{api + d("stranger", "a"), ok + none},
			{"domain: 'other' " + d("user", "a"), ok + none},
			{api + d("user", "friend"), ok + none},
			{api + "descriptors {}", ok + none},
		}},
		{"unlimited", []step{{api + d("user", "root"), ok + unlimited}}},
		{"one status for each descriptor, in order", []step{
			{api + d("path", "/") + d("stranger", "a") + d("user", "a") + d("user", "root"), ok + path("OK", 2) + none + user("OK", 1) + unlimited},
		}},
		{"the same descriptor twice", []step{
			{api + d("user", "a") + d("user", "a"), ok + user("OK", 0) + user("OK", 0)},
			{api + d("user", "b") + d("user", "b") + d("user", "b"), over + user("OK", 2) + user("OK", 2) + "statuses {code: OVER_LIMIT current_limit {requests_per_unit: 2 unit: MINUTE}}"},
		}},
		{"a denied request takes nothing from the others", []step{
			{api + d("user", "a") + "hits_addend: 2", ok + user("OK", 0)},
			{api + d("path", "/") + d("user", "a"), over + path("OK", 3) + user("OVER_LIMIT", 0)},
			{api + d("path", "/"), ok + path("OK", 2)},
		}},
		{"deny all: no time to wait for", []step{
			{api + d("nobody", "a"), over + "statuses {code: OVER_LIMIT current_limit {unit: DAY}}"},
		}},
		{"nothing remains for who asks for too much", []step{
			{api + d("user", "a"), ok + user("OK", 1)},
			{api + d("user", "a") + "hits_addend: 2", over + user("OVER_LIMIT", 0)},
			{api + d("user", "a") + "hits_addend: 3", over + "statuses {code: OVER_LIMIT current_limit {requests_per_unit: 2 unit: MINUTE}}"},
		}},
		{"shadow", []step{
			{api + d("tried", "a"), ok + tried(0)},
			{api + d("tried", "a"), ok + tried(0)},
		}},
		{"quota: over when all are", []step{
			{api + d("model", "a"), ok + model("OK", 0)},
			{api + d("model", "a") + d("model", "b"), ok + model("OVER_LIMIT", 0) + model("OK", 0)},
			{api + d("model", "a") + d("model", "b"), over + model("OVER_LIMIT", 0) + model("OVER_LIMIT", 0)},
		}},
		{"replaces", []step{
			{api + d("path", "/") + d("vip", "a"), ok + none + vip(99)},
			{api + d("vip", "a") + d("path", "/"), ok + vip(98) + none},
			{api + d("free", "a") + d("path", "/"), ok + unlimited + none},
			{api + d("path", "/"), ok + path("OK", 2)},
		}},
		{"cost of the request", []step{
			{api + d("path", "/") + d("user", "a") + "hits_addend: 2", ok + path("OK", 1) + user("OK", 0)},
		}},
		{"cost of the descriptor", []step{
			{api + d("path", "/", addend(3)) + d("user", "a") + "hits_addend: 2", ok + path("OK", 0) + user("OK", 0)},
		}},
		{"peek", []step{
			{api + d("user", "a", addend(0)), ok + user("OK", 2)},
			{api + d("user", "a") + "hits_addend: 2", ok + user("OK", 0)},
			{api + d("user", "a", addend(0)), over + user("OVER_LIMIT", 0)},
		}},
		{"refund", []step{
			{api + d("user", "a") + "hits_addend: 2", ok + user("OK", 0)},
			{api + d("user", "a", "is_negative_hits: true"), ok + user("OK", 1)},
			{api + d("user", "a", "is_negative_hits: true", addend(5)), ok + user("OK", 2)},
		}},
		{"a descriptor's own addend is charged always", []step{
			{api + d("tokens", "a", addend(90)), ok + tokens("OK", 10)},
			{api + d("tokens", "a", addend(20)), over + tokens("OVER_LIMIT", 0)},
			{api + d("tokens", "a", "is_negative_hits: true", addend(15)), ok + tokens("OK", 5)},
		}},
		{"enormous costs", []step{
			{api + d("user", "a", addend(1<<63)), over + "statuses {code: OVER_LIMIT current_limit {requests_per_unit: 2 unit: MINUTE}}"},
			{api + d("user", "a", addend(1<<64-1), "is_negative_hits: true"), ok + user("OK", 2)},
		}},
	})
}

func TestOverride(t *testing.T) {
	limit := func(fields string) string { return "limit {" + fields + "}" }
	conn := serve(t, options(t, rules).service())
	for _, s := range []struct{ name, request, want string }{
		{"instead of the rule", "domain: 'api' " + d("user", "a", limit("requests_per_unit: 1 unit: HOUR")),
			ok + status("OK", "requests_per_unit: 1 unit: HOUR", 0, 30)},
		{"over", "domain: 'api' " + d("user", "a", limit("requests_per_unit: 1 unit: HOUR")),
			over + status("OVER_LIMIT", "requests_per_unit: 1 unit: HOUR", 0, 30)},
		{"another amount keeps the count", "domain: 'api' " + d("user", "a", limit("requests_per_unit: 5 unit: HOUR")),
			ok + status("OK", "requests_per_unit: 5 unit: HOUR", 3, 30)},
		{"multiplier", "domain: 'api' " + d("user", "a", limit("requests_per_unit: 5 unit: MINUTE unit_multiplier {value: 10}")),
			ok + status("OK", "requests_per_unit: 5 unit: MINUTE unit_multiplier {value: 10}", 4, 30)},
		{"without a rule", "domain: 'api' " + d("stranger", "a", limit("requests_per_unit: 9 unit: SECOND")),
			ok + status("OK", "requests_per_unit: 9 unit: SECOND", 8, 1)},
		{"month", "domain: 'api' " + d("user", "a", limit("requests_per_unit: 9 unit: MONTH")),
			ok + status("OK", "requests_per_unit: 9 unit: MONTH", 8, 302430)},
		{"year", "domain: 'api' " + d("user", "a", limit("requests_per_unit: 9 unit: YEAR")),
			ok + status("OK", "requests_per_unit: 9 unit: YEAR", 8, 11966430)},
		{"day", "domain: 'api' " + d("user", "a", limit("requests_per_unit: 9 unit: DAY")),
			ok + status("OK", "requests_per_unit: 9 unit: DAY", 8, 43230)},
		{"unknown domain", "domain: 'other' " + d("user", "a", limit("requests_per_unit: 1 unit: HOUR")),
			ok + none},
	} {
		t.Run(s.name, func(t *testing.T) { expect(t, conn, s.request, s.want) })
	}
}
