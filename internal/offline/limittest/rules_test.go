package limittest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The examples of docs/rules.md, by headings, and what it says of them. Those of lists are in
// package descriptors.
var testsOfRules = map[string]string{
	"## Limit each user": `
tests:
  - name: user
    domain: shop
    steps:
      - {request: [{user: alice}], expect: {remaining: 99}}
      - {request: [{user: bob}], expect: {remaining: 99}}
      - {request: [{user: alice, path: /login}], expect: {remaining: 19}}
      - {request: [{user: alice, path: /cart}], expect: {code: OK, limit: null}}
      - {request: [{user: batch}], expect: {code: OK, limit: null}}
      - {request: [{user: batch, path: /login}], expect: {code: OK, limit: null}}
`,
	"## Which rule applies": `
tests:
  - name: path
    domain: shop
    steps:
      - {request: [{path: /health}], expect: {code: OK, limit: null}}
      - {request: [{path: /files/a.zip}], expect: {remaining: 4}}
      - {request: [{path: /files/a}], expect: {remaining: 49}}
      - {request: [{path: /files/b}], expect: {remaining: 49}}
      - {request: [{path: /other}], expect: {remaining: 499}}
`,
	"## Limit everything below a rule": levelsTests,
	"## Choose how to count": `
tests:
  - name: first hit
    domain: shop
    steps:
      - {at: 10s, send: 21, request: [{api_key: a}], expect: {admitted: 20, retry_after: 30s}}
      - {at: 40s, request: [{api_key: a}], expect: {remaining: 19}}

  - name: bucket
    domain: shop
    steps:
      - {send: 51, request: [{tenant: a}], expect: {admitted: 50}}

  - name: calendar, a March in which the clocks of Berlin change
    domain: shop
    start: 2026-03-01T00:00:00+01:00
    steps:
      - {send: 10001, request: [{plan: a}], expect: {admitted: 10000, retry_after: 2674800s}}
      - {at: 743h, request: [{plan: a}], expect: {remaining: 9999, reset: 2592000s}}
`,
	"## Limit requests in flight": `
tests:
  - name: in flight
    domain: shop
    steps:
      - {request: [{user: alice, request_id: a}], expect: {remaining: 2}}
      - {request: [{user: alice, request_id: b}], expect: {remaining: 1}}
      - {request: [{request_id: c, user: alice}], expect: {remaining: 0}}
      - {request: [{user: alice, request_id: d}], expect: {code: OVER_LIMIT}}
      - {request: [{entries: [{user: alice, request_id: a}], is_negative_hits: true}], expect: {remaining: 1}}
      - {request: [{entries: [{user: alice, request_id: a}], is_negative_hits: true}], expect: {remaining: 1}}
      - {request: [{user: alice, request_id: d}], expect: {remaining: 0}}
      - {at: 59s, request: [{user: alice, request_id: e}], expect: {code: OVER_LIMIT}}
      - {at: 60s, request: [{user: alice, request_id: e}], expect: {remaining: 2}}
`,
	"## Ban who goes over": `
tests:
  - name: ban
    domain: shop
    steps:
      - {send: 6, request: [{login_of: a}], expect: {admitted: 5, retry_after: 10m}}
      - {at: 9m, request: [{login_of: a}], expect: {code: OVER_LIMIT, remaining: 0, retry_after: 1m}}
      - {request: [{entries: [{login_of: a}], is_negative_hits: true}], expect: {code: OK, remaining: 0}}
      - {at: 10m, request: [{login_of: a}], expect: {remaining: 4}}
`,
	"### Large amounts": `
tests:
  - name: tokens
    domain: shop
    steps:
      - {request: [{entries: [{tokens_of_team: a}], hits_addend: 49999999999}], expect: {remaining: 1}}
      - {send: 2, request: [{tokens_of_team: a}], expect: {admitted: 1}}
`,
	"## Try a limit without enforcing it (shadow mode)": `
tests:
  - name: shadow
    domain: shop
    steps:
      - {send: 21, request: [{remote_address: a}], expect: {admitted: 21}}
`,
	"## Limits sent by requests": overrideTests,
}

const levelsTests = `
tests:
  - name: below
    domain: shop
    steps:
      - {send: 21, request: [{user: alice, path: /login}], expect: {admitted: 20, limit: login}}
      - {request: [{user: alice}], expect: {remaining: 79, limit: user}}
      - {send: 80, request: [{user: alice, path: /cart, x: y}], expect: {admitted: 79, limit: user}}
      - {request: [{user: alice}], expect: {denied: 1, retry_after: 60s, limit: user}}
      - {request: [{user: bob, path: /login}], expect: {remaining: 19, limit: login}}
      - {request: [{user: bob}, {user: bob, path: /cart}], expect: {statuses: [{remaining: 97, limit: user}, {remaining: 97, limit: user}]}}
      - {at: 1m, send: 2, request: [{user: alice, path: /login}], expect: {denied: 2, limit: login, retry_after: 59m}}

  - name: otherwise
    domain: shop
    steps:
      - {send: 11, request: [{remote_address: 192.0.2.1}], expect: {admitted: 10, limit: rest}}
      - {send: 11, request: [{remote_address: 192.0.2.2, user: alice}], expect: {admitted: 10, limit: rest}}
      - {request: [{user: alice}], expect: {remaining: 99, limit: user}}
`

const overrideTests = `
tests:
  - name: in the same unit
    domain: shop
    steps:
      - {send: 501, request: [{entries: [{tenant: a}], limit: {requests_per_unit: 5000, unit: minute}}], expect: {admitted: 500}}
      - {send: 1001, request: [{entries: [{tenant: b}], limit: {requests_per_unit: 20000, unit: minute}}], expect: {admitted: 1000}}
      - {send: 101, request: [{tenant: c}], expect: {admitted: 100}}

  - name: in another unit, a second at a time
    domain: shop
    steps:
      - {send: 81, request: [{entries: [{tenant: a}], limit: {requests_per_unit: 800, unit: second}}], expect: {admitted: 80}}
      - {at: 1s, send: 60000, every: 1ms, request: [{entries: [{tenant: a}], limit: {requests_per_unit: 800, unit: second}}], expect: {admitted: 10999}}
`

// The examples of docs/rules.md do what it says.
func TestRulesOfDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, tests := range testsOfRules {
		t.Run(heading, func(t *testing.T) {
			_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
			section, _, _ = strings.Cut(section, "\n#")
			block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindStringSubmatch(section)
			if !found || block == nil {
				t.Fatal("docs/rules.md has no such example")
			}
			pass(t, written(t, block[1], tests))
		})
	}
}
