package memory

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
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
	state limiter.State
	value
	uses int
}

func (k kept) denies(now int64) bool  { return k.until > now }
func (k kept) expired(now int64) bool { return k.expiry <= now }

// level is the use in powers of two, from 128 on the same.
func (k kept) level() (level int) {
	for uses := k.uses; uses > 1 && level < 7; uses /= 2 {
		level++
	}
	return level
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

// add asks for the counter of a key.
func (h *history) add(key []byte, state limiter.State, v value) {
	h.Helper()
	k := kept{state, v, 1}
	if c := h.shard.find(h.hash(key), key); c != nil {
		expiry := h.shard.lend(c)
		c.state = state
		h.shard.takeBack(c, expiry)
		h.shard.asked(c, v, h.now)
		if old := h.want[string(key)]; !old.expired(h.now) {
			k.uses += old.uses
		}
	} else {
		full := len(h.want) >= int(h.shard.max)
		evicted := h.shard.add(h.hash(key), key, state, v, h.now)
		var gone []kept
		if int(h.shard.n) <= len(h.want) {
			gone = h.gone()
		}
		switch {
		case !full && (evicted || len(gone) > 0):
			h.Fatalf("%v are gone, and it was not full", gone)
		case full && len(gone) == 0:
			h.Fatal("full, and nothing made room")
		case evicted:
			h.judge(gone)
		case len(h.expired(gone)) < len(gone):
			h.Fatalf("%v are gone at %d, which is not told", gone, h.now)
		}
	}
	h.want[string(key)] = k
}

// judge checks that what made room was worth the least.
func (h *history) judge(gone []kept) {
	h.Helper()
	if len(gone) != 1 || gone[0].expired(h.now) {
		h.Fatalf("%v are gone at %d, want one that has not expired", gone, h.now)
	}
	victim, due := gone[0], 0
	for _, k := range h.want {
		if k.until > 0 && !k.denies(h.now) {
			due++
		}
	}
	for key, k := range h.want {
		switch {
		case victim.denies(h.now) && !k.denies(h.now):
			h.Fatalf("%+v denies at %d and is gone, while %q does not: %+v", victim, h.now, key, k)
		case k.expired(h.now) && (k.until == 0 || due <= clearedPerEviction):
			h.Fatalf("%+v is gone at %d, while %q has expired: %+v", victim, h.now, key, k)
		case k.denies(h.now) == victim.denies(h.now) && (k.until == 0 || k.denies(h.now)) && k.level() < victim.level():
			h.Fatalf("%+v is gone at %d, while %q is less used: %+v", victim, h.now, key, k)
		case !victim.denies(h.now) && k.until == 0 && k.level() == victim.level() && k.expiry < victim.expiry:
			h.Fatalf("%+v is gone at %d, while %q expires before: %+v", victim, h.now, key, k)
		}
	}
}

// gone forgets the counters that the shard has no longer, and returns them.
func (h *history) gone() (gone []kept) {
	for key, k := range h.want {
		if h.shard.find(h.hash([]byte(key)), []byte(key)) == nil {
			gone = append(gone, k)
			delete(h.want, key)
		}
	}
	return gone
}

// expired returns those that have expired.
func (h *history) expired(of []kept) (expired []kept) {
	for _, k := range of {
		if k.expired(h.now) {
			expired = append(expired, k)
		}
	}
	return expired
}

// clear looks at up to n counters that are due: expired ones, and such that no
// longer deny.
func (h *history) clear(n int) {
	h.Helper()
	all := slices.Collect(maps.Values(h.want))
	over := 0
	for _, k := range all {
		if k.until > 0 && !k.denies(h.now) && !k.expired(h.now) {
			over++
		}
	}
	h.shard.clear(h.now, n)
	gone, least := h.gone(), min(n-over, len(h.expired(all)))
	if len(h.expired(gone)) < len(gone) || len(gone) > n || len(gone) < least {
		h.Fatalf("%v are gone at %d, want expired ones, %d to %d", gone, h.now, least, n)
	}
}

// check compares everything.
func (h *history) check() {
	h.Helper()
	s := &h.shard
	var inOrders, inTables int
	for class := range s.orders {
		inOrders += int(s.orders[class].n)
		if there := s.orders[class].n > 0; there != (s.present>>class&1 == 1) {
			h.Fatalf("class %d holds counters: %v, and in the mask it is %b", class, there, s.present)
		}
	}
	if want := len(h.want); inOrders != want || int(s.n) != want {
		h.Fatalf("%d counters, %d of them in classes, want %d", s.n, inOrders, want)
	}
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
	bans := 0
	for key, want := range h.want {
		c := s.find(h.hash([]byte(key)), []byte(key))
		if c == nil {
			h.Fatalf("%q is lost", key)
		}
		bans += int(min(want.state.Until, 1))
		state := c.state
		state.Until = s.until(c)
		if state != want.state || *c.expiry() != want.expiry || int(c.uses) != min(want.uses, 255) || int(c.class%denying) != want.level() {
			h.Fatalf("%q is %+v, want %+v", key, *c, want)
		}
		switch at := s.orders[c.class].at(c.place).at; {
		case at < s.due:
			h.Fatalf("%q is due at %d, and the first that is at %d", key, at, s.due)
		case c.class >= denying && (at != want.until || at == 0), c.class < denying && (at != want.expiry || want.denies(h.now)):
			h.Fatalf("%q has class %d and is due at %d at %d, want %+v", key, c.class, at, h.now, want)
		}
	}
	if len(s.bans) != bans {
		h.Fatalf("%d bans, want %d", len(s.bans), bans)
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
		v := value{expiry: h.now + int64(next(200)) - 10}
		if left := int(v.expiry - h.now); left > 0 {
			v.until = max(h.now+int64(next(3*left)-2*left), 0) // of three, two do not deny
			if v.until <= h.now {
				v.until = 0
			}
		}
		for range 1 + next(3)*next(6)*next(6) {
			h.add(key, limiter.State{Used: int64(next(100)), Until: max(int64(next(40)-30), 0)}, v)
		}
	}
}

func TestShardAgainstMap(t *testing.T) {
	steps := 10_000
	if testing.Short() {
		steps = 2000
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
	if s.bans != nil {
		h.Errorf("%d bans are left", len(s.bans))
	}
	for class := range s.orders {
		if o := &s.orders[class]; len(o.list) > 0 || cap(o.spare) > short {
			h.Errorf("class %d holds blocks", class)
		}
	}
	for _, t := range s.tables {
		if t != nil && (len(t.counters.list)+len(t.keys.list)+len(t.buckets.list) > 0 ||
			cap(t.counters.spare) > short || cap(t.keys.spare) > short || cap(t.buckets.spare) > short) {
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
