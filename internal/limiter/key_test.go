package limiter

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"weir/internal/testenv"
)

func TestKeySpelling(t *testing.T) {
	minute := MustLimit(Spec{Unit: Minute, RequestsPerUnit: 1})
	alice := []Entry{{"user", "alice"}}
	long := strings.Repeat("x", maxPart+1)
	for _, tc := range []struct {
		name     string
		keys     Keys
		entries  []Entry
		patterns []string
		limit    *Limit
		want     string
	}{
		{"ordinary", Keys{}, alice, nil, minute, "w1|api|user=alice|1m"},
		{"prefix", Keys{Prefix: "shop:"}, alice, nil, minute, "shop:w1|api|user=alice|1m"},
		{"multiplier", Keys{}, alice, nil, MustLimit(Spec{Unit: Second, UnitMultiplier: 30}), "w1|api|user=alice|30s"},
		{"calendar", Keys{}, alice, nil, MustLimit(Spec{Unit: Month, UnitMultiplier: 3, Algorithm: ByCalendar, TimeZone: "Europe/Berlin"}), "w1|api|user=alice|3M@Europe/Berlin"},
		{"calendar of UTC", Keys{}, alice, nil, MustLimit(Spec{Unit: Week, Algorithm: ByCalendar, TimeZone: "UTC"}), "w1|api|user=alice|1w@"},
		{"separators", Keys{}, []Entry{{"a|b", "c=d%~#{} \n\x7f"}}, nil, minute, "w1|api|a%7Cb=c%3Dd%25%7E%23%7B%7D%20%0A%7F|1m"},
		{"other bytes stay", Keys{}, []Entry{{"user", "é\xff"}}, nil, minute, "w1|api|user=é\xff|1m"},
		{"pattern", Keys{}, []Entry{{"path", "/a/7"}, {"user", "alice"}}, []string{"/a/*", ""}, minute, "w1|api|path~/a/*|user=alice|1m"},
		{"long value", Keys{}, []Entry{{"token", long}}, nil, minute, "w1|api|token=#lTfF_fEgSC99WNJentWD9Q|1m"},
		{"in a cluster", Keys{Prefix: "shop:", Cluster: true}, []Entry{{"tenant", "acme"}, {"path", "/login"}}, nil, minute, "shop:w1|api|tenant=acme{55}|path=/login|1m"},
		{"digested values", Keys{Digests: true}, alice, nil, minute, "w1|api|user=#K9gGyX8OAK8aH8Myj6djqQ|1m"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testenv.Equal(t, string(tc.limit.AppendKind(tc.keys.Append(nil, "api", tc.entries, tc.patterns))), tc.want, "key")
		})
	}
}

func TestPrefixIsRefused(t *testing.T) {
	bar, tag := Keys{Prefix: "a|b"}.Check(), Keys{Prefix: "a{b", Cluster: true}.Check()
	if bar == nil || !strings.Contains(bar.Error(), `"a|b"`) || tag == nil || !strings.Contains(tag.Error(), `"a{b"`) {
		t.Errorf("got %v and %v, want errors that name the prefixes", bar, tag)
	}
}

// Limits that must not share a counter have different kinds.
func TestKinds(t *testing.T) {
	kinds := map[string]Spec{}
	for unit := Second; unit <= Year; unit++ {
		for _, s := range []Spec{
			{}, {Algorithm: FirstHit}, {Algorithm: SlidingWindow}, {Algorithm: TokenBucket}, {Algorithm: Concurrency}, {Nth: 2}, {Nth: 3},
			{Algorithm: ByCalendar}, {Algorithm: ByCalendar, Nth: 2}, {Algorithm: ByCalendar, TimeZone: "Europe/Berlin"}, {Algorithm: ByCalendar, TimeZone: "Etc/GMT+1"}, {Algorithm: ByCalendar, TimeZone: "Etc/GMT+1", Nth: 2},
		} {
			s.Unit = unit
			kind := string(s.AppendKind(nil))
			if other, taken := kinds[kind]; taken || strings.Contains(kind, "|") {
				t.Errorf("%+v and %+v are both %s", s, other, kind)
			}
			kinds[kind] = s
		}
	}
}

// Keys with the same domain and first entry share a slot, regardless of their other parts and
// their length.
func TestBucketFollowsFromTheFirstEntry(t *testing.T) {
	keys := Keys{Prefix: "shop:", Cluster: true}
	spell := func(domain, tenant, pattern string, others int, limit *Limit) []byte {
		entries := []Entry{{"tenant", tenant}}
		for i := range others {
			entries = append(entries, Entry{"path", fmt.Sprint("/some/path/", i)})
		}
		return limit.AppendKind(keys.Append(nil, domain, entries, []string{pattern}))
	}
	minute, hour := MustLimit(Spec{Unit: Minute}), MustLimit(Spec{Unit: Hour, Algorithm: TokenBucket})
	for _, same := range [][2][]byte{
		{spell("api", "acme", "", 0, minute), spell("api", "acme", "", 1, hour)},
		{spell("api", "acme", "", 0, minute), spell("api", "acme", "", 100, minute)},
		{spell("api", "acme", "a*", 0, minute), spell("api", "apex", "a*", 0, minute)}, // one counter
	} {
		testenv.Equal(t, Slot(same[0]), Slot(same[1]), "slot of %s, which is that of %s", same[0], same[1])
	}
	slots := map[int]bool{}
	for i := range 20 {
		slots[Slot(spell("api", fmt.Sprint("tenant", i), "", 1, minute))] = true
		slots[Slot(spell(fmt.Sprint("domain", i), "acme", "", 1, minute))] = true
	}
	if len(slots) < 20 {
		t.Errorf("40 tenants and domains are on %d slots", len(slots))
	}
}

// The nodes of a cluster have ranges of slots of about the same size.
func TestBucketsLoadAClusterEvenly(t *testing.T) {
	for nodes := 1; nodes <= 16; nodes++ {
		on := make([]int, nodes)
		for b := range uint32(buckets) {
			on[Slot(appendTag(nil, b))*nodes/Slots]++
		}
		if most := float64(slices.Max(on)*nodes) / buckets; most > 1.3 {
			t.Errorf("one of %d nodes has %.2f times its share of buckets", nodes, most)
		}
	}
	keys, on := Keys{Cluster: true}, map[int]int{}
	const users = 100 * buckets
	for i := range users {
		on[Slot(keys.Append(nil, "api", []Entry{{"user", fmt.Sprint(i)}}, nil))]++
	}
	counts := slices.Collect(maps.Values(on))
	if least, most := slices.Min(counts), slices.Max(counts); len(on) != buckets || least < 60 || most > 150 {
		t.Errorf("%d users in %d buckets: %d in one and %d in another", users, len(on), least, most)
	}
}

func TestKeyAllocatesNothing(t *testing.T) {
	entries := []Entry{{"user", "alice"}, {"path", "/a b"}, {"token", strings.Repeat("x", 100)}}
	limit := MustLimit(Spec{Unit: Minute})
	buf := make([]byte, 0, 256)
	for _, keys := range []Keys{{}, {Cluster: true}} {
		testenv.Equal(t, testing.AllocsPerRun(100, func() { buf = limit.AppendKind(keys.Append(buf[:0], "api", entries, nil)) }), 0, "%+v: allocations", keys)
	}
}

// input is one set of arguments of Append. Different inputs must have different keys.
type input struct {
	Prefix, Domain string
	Entries        []Entry
	Patterns       []string
	Period         int
}

// readInput makes an input from arbitrary bytes: NUL ends a string, and a value that begins with
// * is a pattern.
func readInput(data string) input {
	fields := strings.Split(data, "\x00")
	next := func() (s string) {
		if len(fields) > 0 {
			s, fields = fields[0], fields[1:]
		}
		return s
	}
	in := input{Prefix: strings.ReplaceAll(next(), "|", ""), Domain: next(), Period: 1 + len(next())%7}
	for len(fields) > 0 {
		e, pattern := Entry{Key: next(), Value: next()}, ""
		if strings.HasPrefix(e.Value, "*") {
			pattern, e.Value = e.Value, ""
		}
		in.Entries = append(in.Entries, e)
		in.Patterns = append(in.Patterns, pattern)
	}
	return in
}

func (in input) spell(keys Keys) (key string, kind int) {
	keys.Prefix = in.Prefix
	spelled := keys.Append(nil, in.Domain, in.Entries, in.Patterns)
	return string(MustLimit(Spec{Unit: Unit(in.Period)}).AppendKind(spelled)), len(spelled)
}

func FuzzKeysDoNotMeet(f *testing.F) {
	f.Add("\x00api\x00\x00user\x00alice", "\x00api\x00\x00user\x00bob")
	f.Add("\x00a|b=c\x00\x00k\x00v", "\x00a\x00\x00b\x00c\x00k\x00v")
	f.Add("\x00a\x00\x00k_v\x00w", "\x00a\x00\x00k\x00v_w")
	f.Add("\x00a\x00\x00k\x00*x", "\x00a\x00\x00k\x00x")
	f.Add("\x00a\x00\x00k\x00%7C", "\x00a\x00\x00k\x00|")
	f.Add("w1\x00a\x00\x00k\x00v", "\x00w1\x00\x00a\x00k\x00v")
	f.Add("\x00a\x00\x00k\x00"+strings.Repeat("v", 65), "\x00a\x00\x00k\x00#1zn0EjvmWJDZ8D8pyfvMVQ")
	f.Add(strings.Repeat("\x00aaaaaaaaaa", 100), strings.Repeat("\x00aaaaaaaaaa", 102))
	for n := 55; n < 64; n++ { // around the longest key that is not digested
		f.Add("\x00a\x00"+strings.Repeat("\x00k\x00"+strings.Repeat("v", n), 8), "\x00a")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := readInput(a), readInput(b)
		for _, keys := range []Keys{{}, {Digests: true}, {Cluster: true}, {Digests: true, Cluster: true}} {
			kx, kind := x.spell(keys)
			ky, _ := y.spell(keys)
			testenv.Equal(t, kx == ky, reflect.DeepEqual(x, y), "%+v\nspells %q\n%+v\nspells %q: they are equal", x, kx, y, ky)
			if kind > len(x.Prefix)+maxKey+len("|") {
				t.Errorf("%+v\nspells %d bytes before the kind", x, kind)
			}
		}
	})
}

// Redis computes the same slots.
func TestSlotOfRedis(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: testenv.RedisServer(t, "--cluster-enabled", "yes").Addr()})
	defer client.Close()
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		key := fmt.Sprintf("%x", random.Uint64())
		for range random.IntN(6) { // braces in random positions
			i := random.IntN(len(key) + 1)
			key = key[:i] + []string{"{", "}", "\x00", "\xff"}[random.IntN(4)] + key[i:]
		}
		want := testenv.Must(client.ClusterKeySlot(t.Context(), key).Result())(t)
		testenv.Equal(t, Slot([]byte(key)), int(want), "%q", key)
	}
}
