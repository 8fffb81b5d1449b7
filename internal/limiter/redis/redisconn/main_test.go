package redisconn

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"weir/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is an OpTimeout that no healthy call reaches, however busy the machine.
const long = 20 * time.Second

// open returns a client that is closed when the test ends.
func open(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := Open(o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// connect returns a client of go-redis, for what a test does behind the back of ours.
func connect(t *testing.T, r *testenv.Redis) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: r.Addr(), ReadTimeout: long})
	t.Cleanup(func() { c.Close() })
	return c
}

// do sends a command and fails the test if Redis does not like it.
func do(t *testing.T, c *redis.Client, args ...any) any {
	t.Helper()
	reply, err := c.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}
