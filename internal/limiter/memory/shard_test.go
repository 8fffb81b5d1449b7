package memory

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"
)

// colliding returns so many pairs of keys with equal hashes in a shard.
func colliding(seed maphash.Seed, pairs int) (keys []string) {
	seen := make(map[uint32]string)
	for i := 0; len(keys) < 2*pairs; i++ {
		key := fmt.Sprint("key ", i)
		hash := inShard(maphash.String(seed, key))
		if other, ok := seen[hash]; ok {
			keys = append(keys, key, other)
		}
		seen[hash] = key
	}
	return keys
}

// A shard finds what was kept and nothing else, in the order of expiry, whatever is
// kept, changed, dropped and cleared, also of keys whose hashes are equal.
func TestShardAgainstMap(t *testing.T) {
	seed, random := maphash.MakeSeed(), rand.New(rand.NewPCG(rand.Uint64(), 0))
	keys := colliding(seed, 10)
	for i := range 1000 {
		keys = append(keys, fmt.Sprint(i, string(make([]byte, i%100))))
	}
	c := newCounters(seed, 700)
	want := map[string]int64{} // expiry by key
	for now := range int64(4000) {
		key := keys[random.IntN(len(keys))]
		if now/2000%2 == 1 {
			key = keys[random.IntN(20)] // few, so that memory is given back
		}
		hash := inShard(maphash.String(seed, key))
		n := c.find(hash, []byte(key))
		if n != 0 && random.IntN(8) == 0 {
			c.drop(n)
			delete(want, key)
			continue
		}
		if n == 0 {
			n = c.add(hash, []byte(key))
		}
		expiry := now + random.Int64N(2000) - 100
		c.at(n).state.Used = expiry
		evictions := c.keep(n, expiry, now)
		if want[key] = expiry; expiry <= now {
			delete(want, key)
		}
		c.clear(now, 3)
		expectKept(t, &c, want, now, evictions)
		if t.Failed() {
			return
		}
	}
	if c.clear(1<<62, len(want)); len(c.order)+len(c.index)+c.live+len(c.blocks) != 0 {
		t.Errorf("%d counters, %d hashes, %d bytes of keys, %d blocks are left of none", len(c.order), len(c.index), c.live, len(c.blocks))
	}
}

// expectKept compares what is kept, and forgets what has expired or was evicted.
func expectKept(t *testing.T, c *counters, want map[string]int64, now int64, evictions int) {
	t.Helper()
	soonest, last := int64(1<<62), int64(0)
	for key, expiry := range want {
		n := c.find(inShard(maphash.String(c.seed, key)), []byte(key))
		switch {
		case n == 0:
			if expiry > now {
				last = max(last, expiry)
				evictions--
			}
			delete(want, key)
		case c.at(n).expiry != expiry || c.at(n).state.Used != expiry || string(c.keyOf(c.at(n))) != key:
			t.Fatalf("%q is %+v, want expiry %d", key, *c.at(n), expiry)
		default:
			soonest = min(soonest, expiry)
		}
	}
	if evictions != 0 {
		t.Fatalf("%d more evictions are told than counters are gone", evictions)
	}
	if len(c.order) != len(want) || len(c.order) > c.max {
		t.Fatalf("%d counters, want %d of at most %d", len(c.order), len(want), c.max)
	}
	if len(c.order) > 0 && c.at(c.order[0]).expiry != soonest {
		t.Fatalf("the first expires at %d, want %d", c.at(c.order[0]).expiry, soonest)
	}
}
