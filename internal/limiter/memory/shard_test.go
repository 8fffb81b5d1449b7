package memory

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"
)

// A shard finds exactly the counters that it keeps, in the order of expiry, after any sequence of
// add, keep, drop and clear, even for keys with equal hashes.
func TestShardAgainstMap(t *testing.T) {
	seed, random := maphash.MakeSeed(), rand.New(rand.NewPCG(rand.Uint64(), 0))
	var keys []string
	for i, seen := 0, map[uint32]string{}; len(keys) < 20; i++ { // pairs with equal hashes
		key := fmt.Sprint("key ", i)
		hash := inShard(maphash.String(seed, key))
		if other, ok := seen[hash]; ok {
			keys = append(keys, key, other)
		}
		seen[hash] = key
	}
	for i := range 1000 {
		keys = append(keys, fmt.Sprint(i, string(make([]byte, i%100))))
	}
	c := newCounters(seed, 700)
	want := map[string]int64{} // expiry by key
	for now := range int64(4000) {
		key := keys[random.IntN(len(keys))]
		if now/2000%2 == 1 {
			key = keys[random.IntN(20)] // few keys, so that memory is freed
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
	// Two blocks of a small shard are not worth freeing.
	if c.clear(1<<62, len(want)); len(c.order)+len(c.index)+c.live != 0 || len(c.blocks) > 2 {
		t.Errorf("%d counters, %d hashes, %d bytes of keys, %d blocks are left of none", len(c.order), len(c.index), c.live, len(c.blocks))
	}
}

// expectKept compares the counters of c with want, after it removes expired and evicted counters
// from want.
func expectKept(t *testing.T, c *counters, want map[string]int64, now int64, evictions int) {
	t.Helper()
	soonest := int64(1 << 62)
	for key, expiry := range want {
		n := c.find(inShard(maphash.String(c.seed, key)), []byte(key))
		if n == 0 {
			if delete(want, key); expiry > now {
				evictions--
			}
			continue
		}
		soonest = min(soonest, expiry)
		if k := c.at(n); k.expiry != expiry || k.state.Used != expiry || string(c.keyOf(k)) != key {
			t.Fatalf("%q is %+v, want expiry %d", key, *k, expiry)
		}
	}
	if n := len(c.order); evictions != 0 || n != len(want) || n > c.max || n > 0 && c.at(c.order[0]).expiry != soonest {
		t.Fatalf("%d counters, want %d of at most %d, the first to expire at %d; %d more evictions are reported than counters are missing", n, len(want), c.max, soonest, evictions)
	}
}
