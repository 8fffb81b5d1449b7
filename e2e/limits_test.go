package e2e

import (
	"strconv"
	"testing"
	"time"
)

func TestLimitAdmitsItsAmountAndShowsIt(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 3}
`
	inEachStore(t, rules, func(t *testing.T, s *stack) {
		for i, want := range []struct {
			status    int
			remaining string
		}{{200, "2"}, {200, "1"}, {200, "0"}, {429, "0"}, {429, "0"}} {
			untilMidnight := func() float64 {
				return time.Until(time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)).Seconds()
			}
			most := untilMidnight()
			a := s.ask("/", "x-user: alice")
			least := untilMidnight()
			if a.status != want.status {
				t.Fatalf("request %d: status %d, want %d", i+1, a.status, want.status)
			}
			for header, want := range map[string]string{
				"x-ratelimit-limit":     "3, 3;w=86400",
				"x-ratelimit-remaining": want.remaining,
			} {
				if got := a.header.Get(header); got != want {
					t.Errorf("request %d: %s is %q, want %q", i+1, header, got, want)
				}
			}
			reset, err := strconv.ParseFloat(a.header.Get("x-ratelimit-reset"), 64)
			if err != nil || reset < least-1 || reset > most+1 {
				t.Errorf("request %d: x-ratelimit-reset is %q, want %.f to %.f", i+1, a.header.Get("x-ratelimit-reset"), least, most)
			}
			retryAfter := ""
			if want.status == 429 {
				retryAfter = a.header.Get("x-ratelimit-reset")
			}
			if got := a.header.Get("retry-after"); got != retryAfter {
				t.Errorf("request %d: retry-after is %q, want %q", i+1, got, retryAfter)
			}
		}
	})
}

func TestUsersHaveLimitsOfTheirOwn(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: user
    value: root
    rate_limit: {unlimited: true}
`
	inEachStore(t, rules, func(_ *testing.T, s *stack) {
		s.want("/", "x-user: alice", 200, 200, 429)
		s.want("/", "x-user: bob", 200, 200, 429)
		s.want("/", "x-user: root", 200, 200, 200)
		s.want("/", "x-nobody: ", 200, 200, 200)
	})
}

func TestDeniedRequestConsumesNothing(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {unit: day, requests_per_unit: 100}
  - key: user
    rate_limit: {unit: day, requests_per_unit: 5}
    descriptors:
      - key: path
        value: /login
        rate_limit: {unit: day, requests_per_unit: 2}
`
	inEachStore(t, rules, func(t *testing.T, s *stack) {
		// Three descriptors: address, user, user and path.
		s.want("/login", "x-user: alice", 200, 200, 429, 429)
		if got := s.weir.remaining("user", "alice"); got != 3 {
			t.Errorf("the user has %d requests left, want 3: two of five were admitted", got)
		}
		if got := s.weir.remaining("remote_address", "127.0.0.1"); got != 98 {
			t.Errorf("the address has %d requests left, want 98: two of 100 were admitted", got)
		}
		s.want("/", "x-user: alice", 200, 200, 200, 429)
		if got := s.weir.remaining("remote_address", "127.0.0.1"); got != 95 {
			t.Errorf("the address has %d requests left, want 95: five of 100 were admitted", got)
		}
	})
}

func TestShadowLimitNeverDenies(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: path
    value: /reports
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 2}
`
	inEachStore(t, rules, func(t *testing.T, s *stack) {
		s.want("/reports", "x-user: alice", 200, 200, 200, 200, 200)
		s.weir.wantMetric(`ratelimit_service_rate_limit_shadow_mode{domain="api",key1="path_/reports",key2=""} 3`)
	})
}
