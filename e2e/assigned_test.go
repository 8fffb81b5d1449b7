package e2e

import (
	"fmt"
	"strings"
	"testing"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/testenv"
)

// TestAssignedAmounts sells amounts while two servers decide, and starts others that cannot read them.
func TestAssignedAmounts(t *testing.T) {
	t.Parallel()
	awayFromMidnight(t)
	redis := testenv.RedisServer(t)
	rules := writeRules(t, userRules(2))
	one, two := startWeir(t, rules, onRedis(redis)...), startWeir(t, rules, onRedis(redis)...)
	o, clients := operator{t, t.TempDir(), one.debug}, []service.RateLimitServiceClient{dial(t, one.grpc), dial(t, two.grpc)}
	admits := func(want int, user string) {
		t.Helper()
		var admitted int
		for i := range 2 * want {
			a := testenv.Must(decide(clients[i%2], request(descriptor("user", user))))(t)
			if a.OverallCode == service.RateLimitResponse_OK {
				admitted++
			}
		}
		testenv.Equal(t, admitted, want, "admitted requests of %s", user)
	}
	o.shell("weir assign api user=acme 5 --note 'contract 7'", "1 added")
	two.waitForRemaining(5, "api", "user", "acme")
	admits(5, "acme")
	for range 2 { // a payment whose message is repeated
		o.shell("weir assign api user=acme +3 --id pay-1", "1 changed|1 unchanged")
	}
	two.waitForRemaining(3, "api", "user", "acme")
	o.shell("weir peek api user=acme", `8 per day +5 of 8`, `assigned 8 since .* by ops \(contract 7\), the rule has 2 per day`)
	waitForText(t, "http://"+two.debug+"/console/descriptor?domain=api&descriptor=user%3Dacme", "The rule has 2 per day")
	admits(3, "acme")

	// A file has what many customers bought.
	lines := []string{"domain,descriptor,limit,amount,note", "api,user=acme,,8,contract 7"}
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("api,user=c%d,,%d,", i, 1+i%9))
	}
	testenv.Write(t, o.dir+"/contracts.csv", strings.Join(lines, "\n"))
	o.shell("weir assign --file contracts.csv --prune", "1000 added, 0 changed, 1 unchanged, 0 removed, 0 refused")
	o.shell("weir assigned --domain api user=c99", "11 assigned", `(?m)^4 .* api user=c993 *$`)
	two.waitForRemaining(9, "api", "user", "c998")
	admits(9, "c998")

	// A new server reads the amounts before it is healthy, unless it should serve at once.
	redis.Command("acl", "setuser", "default", "-hscan")
	started := append(onRedis(redis), "CONFIG_PATH="+rules)
	late, early := runWeir(t, started, program(t)), runWeir(t, append(started, "SERVE_BEFORE_ASSIGNED=true"), program(t))
	late.waitForHealth(500, "the assigned amounts have not been read yet")
	early.waitUntilHealthy()
	early.waitForRemaining(2, "api", "user", "c997")
	redis.Command("acl", "setuser", "default", "+hscan")
	late.waitUntilHealthy()
	for _, w := range []*weir{late, early} {
		w.waitForRemaining(8, "api", "user", "c997")
	}
}
