package e2e

import "testing"

// Timeout 0 lets Envoy's HTTP filter wait as long as a decision takes.
func TestFilterWithoutTimeoutWaits(t *testing.T) {
	t.Parallel()
	s := startGateway(t, gateway{rateLimit: "timeout: 0s"}, startUpstream(t), oneADay)
	redisCommand(t, s.redis, "CLIENT PAUSE 60000 WRITE")
	answers := s.askInBackground("/", "alice")
	waitForHeldScript(t, s.redis)
	redisCommand(t, s.redis, "CLIENT UNPAUSE")
	if a := <-answers; a.status != 200 {
		t.Errorf("status %d, want 200", a.status)
	}
	s.want("/", "x-user: alice", 429)
}
