package memstore

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"testing"

	"weir/internal/limiter"
)

// history is a shard beside the simplest one there is, a map.
type history struct {
	*testing.T
	shard shard
	hash  func(key []byte) uint32
	want  map[string]kept
	now   int64
}

type kept struct {
	state  limiter.State
	expiry int64
}

func newHistory(t *testing.T, maxCounters int, hash func([]byte) uint32) *history {
	h := &history{T: t, hash: hash, want: make(map[string]kept)}
	h.shard.init(maxCounters)
	return h
}

// hashes are a good one and such that make many keys, or all, collide.
func hashes() map[string]func([]byte) uint32 {
	seed := maphash.MakeSeed()
	good := func(key []byte) uint32 { return uint32(maphash.Bytes(seed, key)) }
	return map[string]func([]byte) uint32{
		"good":       good,
		"three bits": func(key []byte) uint32 { return good(key) % 8 },
		"high bits":  func(key []byte) uint32 { return good(key) << 24 },
		"one":        func([]byte) uint32 { return math.MaxUint32 },
	}
}

// add adds the counter of a key, or gives the one there is another expiry. What
// has to make room must be the one nearest to its expiry.
func (h *history) add(key []byte, state limiter.State, expiry int64) {
	h.Helper()
	if c := h.shard.find(h.hash(key), key); c != nil {
		c.state = state
		h.shard.refile(c.place, expiry)
	} else {
		full := len(h.want) >= int(h.shard.max)
		evicted := h.shard.add(h.hash(key), key, state, expiry, h.now)
		if full {
			if gone := h.gone(); evicted != (gone > h.now) {
				h.Fatalf("evicted is %v at %d, and gone is what expires at %d", evicted, h.now, gone)
			}
		} else if evicted {
			h.Fatal("evicted, and not full")
		}
	}
	h.want[string(key)] = kept{state, expiry}
}

// gone forgets the counter that the shard has no longer. Its expiry, which gone
// returns, must be the first of all.
func (h *history) gone() (expiry int64) {
	h.Helper()
	expiry = h.nearest()
	for key, k := range h.want {
		if k.expiry == expiry && h.shard.find(h.hash([]byte(key)), []byte(key)) == nil {
			delete(h.want, key)
			return expiry
		}
	}
	h.Fatalf("all counters that expire at %d are there, one should have made room", expiry)
	return 0
}

func (h *history) nearest() int64 {
	nearest := int64(math.MaxInt64)
	for _, k := range h.want {
		nearest = min(nearest, k.expiry)
	}
	return nearest
}

// clear drops up to n expired counters.
func (h *history) clear(n int) {
	h.Helper()
	h.shard.clear(h.now, n)
	for ; n > 0 && h.nearest() <= h.now; n-- {
		h.gone()
	}
}

// check compares everything.
func (h *history) check() {
	h.Helper()
	s := &h.shard
	if got, want := int(s.order.n), len(h.want); got != want {
		h.Fatalf("%d counters in order of expiry, want %d", got, want)
	}
	var inTables int
	for _, t := range s.tables {
		if t == nil {
			continue
		}
		inTables += int(t.counters.n)
		if t.keys.n != t.counters.n || t.buckets.n != t.counters.n {
			h.Fatalf("%d counters, %d keys, %d buckets", t.counters.n, t.keys.n, t.buckets.n)
		}
	}
	if inTables != len(h.want) {
		h.Fatalf("%d counters in tables, want %d", inTables, len(h.want))
	}
	for key, want := range h.want {
		c := s.find(h.hash([]byte(key)), []byte(key))
		if c == nil {
			h.Fatalf("%q is lost", key)
		}
		if got := (kept{c.state, s.order.at(c.place).expiry}); got != want {
			h.Fatalf("%q is %+v, want %+v", key, got, want)
		}
	}
}

// step does one thing, drawn with next(n), which returns a number below n.
func (h *history) step(keys int, next func(n int) int) {
	h.Helper()
	switch next(8) {
	case 0:
		h.now += int64(next(20))
		h.clear(next(8))
	default:
		n := next(keys)
		// Of many lengths, of which some keys are the beginning of others.
		key := append(bytes.Repeat([]byte{0}, n%41), fmt.Sprint(n/41)...)
		h.add(key, limiter.State{Used: int64(next(100))}, h.now+int64(next(200))-10)
	}
}

func TestShardAgainstMap(t *testing.T) {
	steps := 30_000
	if testing.Short() {
		steps = 5000
	}
	for name, hash := range hashes() {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			h := newHistory(t, 700, hash)
			for i := range steps {
				h.step(1500, random.IntN)
				if i%500 == 0 {
					h.check()
				}
			}
			h.check()
			h.now = math.MaxInt64 - 1
			h.clear(math.MaxInt)
			h.check()
			h.expectEmpty()
		})
	}
}

// expectEmpty checks that nothing is held on to.
func (h *history) expectEmpty() {
	h.Helper()
	s := &h.shard
	if s.order.list != nil || s.order.spare != nil {
		h.Error("the order of expiry holds blocks")
	}
	for _, t := range s.tables {
		if t != nil && (t.counters.list != nil || t.keys.list != nil || t.buckets.list != nil ||
			t.counters.spare != nil || t.keys.spare != nil || t.buckets.spare != nil) {
			h.Errorf("the table of keys of %d bytes holds blocks", t.keys.width)
		}
	}
}

func FuzzShard(f *testing.F) {
	f.Add(uint8(3), []byte("\x01\x02\x03\x04\x01\x02\x07\x08\x00\x13\x07"))
	f.Add(uint8(200), bytes.Repeat([]byte{1, 5, 9, 60, 1, 7, 30, 2, 0, 19, 3}, 50))
	all := hashes()
	f.Fuzz(func(t *testing.T, maxCounters uint8, steps []byte) {
		for _, name := range []string{"good", "three bits", "one"} {
			h := newHistory(t, 1+int(maxCounters), all[name])
			rest := steps
			next := func(n int) int {
				if len(rest) == 0 {
					return 0
				}
				b := rest[0]
				rest = rest[1:]
				return int(b) % n
			}
			for len(rest) > 0 {
				h.step(250, next)
			}
			h.check()
		}
	})
}

// A bucket more moves counters of one bucket only, and back.
func TestLinearHashing(t *testing.T) {
	for n := uint32(1); n < 300; n++ {
		for hash := range uint32(2000) {
			before, after := bucketOf(hash, n), bucketOf(hash, n+1)
			if before >= n {
				t.Fatalf("hash %d is in bucket %d of %d", hash, before, n)
			}
			if before != after && (after != n || before != splitFrom(n)) {
				t.Fatalf("bucket %d takes hash %d from bucket %d to %d, want from %d", n, hash, before, after, splitFrom(n))
			}
		}
	}
}
