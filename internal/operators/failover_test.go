package operators

import (
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/redis"
	"weir/internal/limiter/redis/conn"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// TestAmountsAfterFailover promotes a replica that lacks the last changes of a part, whose list of changes is
// full. The servers restore the changes.
func TestAmountsAfterFailover(t *testing.T) {
	t.Parallel()
	primary := testenv.RedisServer(t)
	replica := testenv.RedisReplica(t, primary)
	sentinel := testenv.RedisSentinel(t, primary, "sentinel down-after-milliseconds weir 600000")
	var desks []*Desk
	for range 2 {
		d := sharing(t, redis.Server{Type: conn.Sentinel, Primary: "weir", Addr: sentinel.Addr(), Timeout: 2 * time.Second})
		testenv.OK(t, d.InForce.Load(t.Context()))
		desks = append(desks, d)
	}
	var lines []string // of part 1
	for i := 0; len(lines) < maxChanges+800; i++ {
		if _, part := plan.AssignedID("api", []limiter.Entry{{Key: "tenant", Value: fmt.Sprint(i)}}, ""); part == 1 {
			lines = append(lines, fmt.Sprintf(`{"domain":"api","descriptor":"tenant=%d","amount":5}`, i))
		}
	}
	assign := func(d *Desk, lines []string) error {
		_, err := d.Assign(t.Context(), strings.NewReader(strings.Join(lines, "\n")), How{})
		return err
	}
	old, lost, later := lines[:maxChanges+400], lines[maxChanges+400:maxChanges+799], lines[maxChanges+799:]
	testenv.OK(t, assign(desks[0], old))
	admin := goredis.NewClient(&goredis.Options{Addr: primary.Addr()})
	defer admin.Close()
	testenv.OK(t, admin.Wait(t.Context(), 1, 20*time.Second).Err())
	replica.Pause()
	testenv.OK(t, assign(desks[0], lost))
	testenv.OK(t, desks[1].InForce.Load(t.Context()))
	primary.Stop()
	replica.Resume()

	watch := goredis.NewClient(&goredis.Options{Addr: sentinel.Addr()})
	defer watch.Close()
	testenv.Until(t, "the promoted replica takes changes", func() bool {
		_ = watch.Do(t.Context(), "sentinel", "failover", "weir").Err() // fails during a failover
		return assign(desks[1], later) == nil
	})
	testenv.OK(t, desks[0].InForce.Load(t.Context()))
	for i, d := range desks {
		testenv.Equal(t, d.Assigned("api", "tenant=", 1).Total, len(lines), "server %d: amounts", i)
	}
	promoted := goredis.NewClient(&goredis.Options{Addr: replica.Addr()})
	defer promoted.Close()
	if n := testenv.Must(promoted.HLen(t.Context(), "w1|{weir:1}assigned").Result())(t); int(n) != len(lines)+1 { // one more for the marker
		t.Errorf("Redis: %d amounts, want %d", n-1, len(lines))
	}
}
