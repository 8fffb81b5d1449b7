package redisstore_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/limiter/redisstore"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

func open(t *testing.T, o redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestStoreOnMiniredis(t *testing.T) {
	storetest.Run(t, func(t *testing.T, now func() time.Time) limiter.Store {
		return open(t, redisstore.Options{URL: miniredis.RunT(t).Addr(), Now: now, OpTimeout: 10 * time.Second})
	})
}

func TestStoreOnRedis(t *testing.T) {
	r := testenv.RedisServer(t)
	_ = r
	storetest.Run(t, func(t *testing.T, now func() time.Time) limiter.Store {
		r.Stop()
		r.Start()
		return open(t, redisstore.Options{URL: r.Addr(), Now: now, OpTimeout: 10 * time.Second})
	})
}
