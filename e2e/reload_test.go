package e2e

import (
	"fmt"
	"testing"

	"weir/internal/testenv"
)

func TestReloadedRulesServeWithoutRestart(t *testing.T) {
	rules := func(amount string) string {
		return fmt.Sprintf("domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: %s}}]\n", amount)
	}
	inEachStore(t, rules("1"), func(t *testing.T, s *stack) {
		s.want("/", "x-user: alice", 200, 429)

		replaceRules(t, s.rules, rules("3"))
		testenv.Eventually(t, func() error {
			if got := s.weir.remaining("user", "new"); got != 3 {
				return fmt.Errorf("a user may make %d requests, want 3", got)
			}
			return nil
		})
		// A changed amount keeps the count.
		s.want("/", "x-user: alice", 200, 200, 429)

		replaceRules(t, s.rules, rules("many"))
		testenv.Eventually(t, func() error {
			return s.weir.hasMetric("ratelimit_service_config_load_error 1")
		})
		s.want("/", "x-user: bob", 200, 200, 200, 429)
	})
}
