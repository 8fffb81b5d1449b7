package operators

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"weir/internal/limiter"
)

// newLimit returns a limit with a label.
func newLimit(t testing.TB, label string) *limiter.Limit {
	t.Helper()
	l, err := limiter.NewLimit(limiter.Spec{
		RequestsPerUnit: 5, Unit: limiter.Minute,
		Series: limiter.LabelSet{Domain: "api", Key1: label, Rule: label, Limit: "minute"}.Series(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// denialOf returns the denial of a user by a limit.
func denialOf(l *limiter.Limit, user string) *Denial {
	return &Denial{Limit: l, RetryAfter: time.Second, Asked: Asked{
		Domain: "api", Entries: []limiter.Entry{{Key: "user", Value: user}},
		Key: []byte("w1|api|" + string(l.Series) + "|" + user),
	}}
}

// noon is when tests begin: at the begin of a sub-window of both windows.
var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// deny records n denials of a user.
func deny(r *Recorder, now time.Time, l *limiter.Limit, user string, n int) {
	for range n {
		r.Record(now, denialOf(l, user))
	}
}

// counts is what a window shows: user ->
func counts(w Window) map[string]uint64 {
	got := map[string]uint64{}
	for _, l := range w.Limits {
		for _, k := range l.Keys {
			got[l.Rule+"/"+k.Descriptor.Entries[0].Value] = k.Denied
		}
	}
	return got
}

func wantCounts(t *testing.T, what string, w Window, want map[string]uint64) {
	t.Helper()
	if got := counts(w); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestWindowsPass lets an hour pass.
func TestWindowsPass(t *testing.T) {
	l := newLimit(t, "user")
	r := NewRecorder(noon)
	deny(r, noon, l, "early", 3)
	at := noon
	for _, step := range []struct {
		wait         time.Duration
		user         string // who is denied then, twice
		minute, hour map[string]uint64
	}{
		{0, "alice", map[string]uint64{"user/early": 3, "user/alice": 2}, map[string]uint64{"user/early": 3, "user/alice": 2}},
		{59 * time.Second, "alice", map[string]uint64{"user/early": 3, "user/alice": 4}, map[string]uint64{"user/early": 3, "user/alice": 4}},
		{time.Second, "bob", map[string]uint64{"user/alice": 2, "user/bob": 2}, map[string]uint64{"user/early": 3, "user/alice": 4, "user/bob": 2}},
		{58 * time.Minute, "carol", map[string]uint64{"user/carol": 2}, map[string]uint64{"user/early": 3, "user/alice": 4, "user/bob": 2, "user/carol": 2}},
		{time.Minute, "dan", map[string]uint64{"user/dan": 2}, map[string]uint64{"user/carol": 2, "user/dan": 2}},
		{2 * time.Hour, "eve", map[string]uint64{"user/eve": 2}, map[string]uint64{"user/eve": 2}},
	} {
		at = at.Add(step.wait)
		deny(r, at, l, step.user, 2)
		s := r.Denials(at, MaxKeys)
		wantCounts(t, fmt.Sprint("minute after ", step.wait), s.Minute, step.minute)
		wantCounts(t, fmt.Sprint("hour after ", step.wait), s.Hour, step.hour)
		old := at.Sub(noon) // a window is no older than the recorder
		if age := at.Sub(s.Minute.From); age < min(50*time.Second, old) || age >= time.Minute || age > old {
			t.Errorf("the minute is %v long", age)
		}
		if age := at.Sub(s.Hour.From); age < min(55*time.Minute, old) || age >= time.Hour || age > old {
			t.Errorf("the hour is %v long", age)
		}
	}
	// What reads finds old denials gone without new ones, too.
	if s := r.Denials(at.Add(time.Hour), MaxKeys); len(s.Minute.Limits)+len(s.Hour.Limits) != 0 || len(s.Last) != 15 {
		t.Errorf("got %+v", s)
	}
	// A clock that steps back counts on.
	deny(r, noon.Add(-time.Hour), l, "frank", 1)
	if s := r.Denials(at.Add(time.Hour), MaxKeys); counts(s.Minute)["user/frank"] != 1 {
		t.Errorf("got %+v", s.Minute)
	}
}

// TestSummary shows all that is known of a denial.
func TestSummary(t *testing.T) {
	r := NewRecorder(noon)
	l, shadowed := newLimit(t, "user"), newLimit(t, "tenant")
	deny(r, noon, l, "alice", 2)
	deny(r, noon.Add(7*time.Second), l, "alice", 1)
	d := denialOf(shadowed, "bob")
	d.Shadow, d.RetryAfter = true, limiter.Never
	r.Record(noon.Add(8*time.Second), d)
	s := r.Denials(noon.Add(9*time.Second), MaxKeys)
	s.Locate(func(places map[limiter.Series]string) {
		for series := range places {
			if series == l.Series {
				places[series] = "rules.yaml:3:5"
			}
		}
	})
	if s.Last = s.Last[:2]; fmt.Sprint(s.Minute.Limits) != fmt.Sprint(s.Hour.Limits) {
		t.Error("the hour differs from the minute")
	}
	s.Hour = Window{}
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	const alice, bob = `{"entries":[{"key":"user","value":"alice"}]}`, `{"entries":[{"key":"user","value":"bob"}]}`
	const user, tenant = `"domain":"api","rule":"user","place":"rules.yaml:3:5","limit":"minute","rate":"5 per minute"`, `"domain":"api","rule":"tenant","limit":"minute","rate":"5 per minute","shadow":true`
	want := `{"at":"2026-08-01T12:00:09Z","minute":{"from":"2026-08-01T12:00:00Z","limits":[` +
		`{` + user + `,"denied":3,"error":0,"keys":[{"descriptor":` + alice + `,"denied":3,"error":0,"first":"2026-08-01T12:00:00Z","last":"2026-08-01T12:00:07Z"}],"others_at_most":0},` +
		`{` + tenant + `,"denied":1,"error":0,"keys":[{"descriptor":` + bob + `,"denied":1,"error":0,"first":"2026-08-01T12:00:08Z","last":"2026-08-01T12:00:08Z"}],"others_at_most":0}` +
		`],"others_at_most":0},"hour":{"from":"0001-01-01T00:00:00Z","limits":null,"others_at_most":0},"last":[` +
		`{"at":"2026-08-01T12:00:08Z",` + tenant + `,"descriptor":` + bob + `,"retry_after":null},` +
		`{"at":"2026-08-01T12:00:07Z",` + user + `,"descriptor":` + alice + `,"retry_after":1}]}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestLastDenialsAreTheLast floods, and wants the newest of all keys in order.
func TestLastDenialsAreTheLast(t *testing.T) {
	l := newLimit(t, "user")
	for _, users := range []int{1, 3, 100000} {
		r := NewRecorder(noon)
		for i := range 5000 {
			r.Record(noon.Add(time.Duration(i)*time.Millisecond), denialOf(l, fmt.Sprint(i%users)))
		}
		last := r.Denials(noon.Add(5*time.Second), MaxKeys).Last
		if len(last) != MaxLast {
			t.Fatalf("got %d, want %d", len(last), MaxLast)
		}
		for i, e := range last {
			n := 4999 - i
			if want := noon.Add(time.Duration(n) * time.Millisecond); !e.At.Equal(want) || e.Descriptor.Entries[0].Value != fmt.Sprint(n%users) {
				t.Errorf("%d users, place %d: got %v", users, i, e)
			}
		}
	}
}

// TestAbuserIsFound hides one abusive user among random ones, and among limits.
func TestAbuserIsFound(t *testing.T) {
	r := NewRecorder(noon)
	quiet, flooded := newLimit(t, "quiet"), newLimit(t, "flooded")
	at := noon
	for i := range 60_000 {
		at = noon.Add(time.Duration(i) * time.Millisecond)
		deny(r, at, flooded, fmt.Sprint("random-", i), 1)
		if i%100 == 0 {
			deny(r, at, flooded, "abuser", 1)
		}
		if i%1000 == 0 {
			deny(r, at, quiet, "alice", 1)
		}
	}
	s := r.Denials(at, MaxKeys)
	for name, w := range map[string]Window{"minute": s.Minute, "hour": s.Hour} {
		top := w.Limits[0].Keys[0]
		if got := top.Descriptor.Entries[0].Value; w.Limits[0].Rule != "flooded" || got != "abuser" || top.Denied < 600 || top.Denied-top.Error > 600 {
			t.Errorf("%s: got %+v", name, top)
		}
		if most := uint64(2 * 60_600 / (sketchSize)); w.Limits[0].OthersAtMost > most {
			t.Errorf("%s: the error is %d, want at most %d", name, w.Limits[0].OthersAtMost, most)
		}
		if counts(w)["quiet/alice"] != 60 {
			t.Errorf("%s: got %v", name, counts(w))
		}
	}
}

// TestMemoryIsBounded records what takes most: long values of many limits that are gone
// from the rules, in each sub-window of an hour.
func TestMemoryIsBounded(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for name, limit := range map[string]func(i int) *limiter.Limit{
		"one limit": func() func(int) *limiter.Limit {
			l := newLimit(t, "user")
			return func(int) *limiter.Limit { return l }
		}(),
		"many limits": func(i int) *limiter.Limit { return newLimit(t, fmt.Sprint("tenant=", i, "|user|path=/a/long/way")) },
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			r := NewRecorder(noon)
			random := rand.New(rand.NewPCG(1, 2))
			at := noon
			const fill = 2 * sketchSize
			for i := range fill * (hourParts + minuteParts) {
				switch {
				case i%fill > 0:
				case i < fill*hourParts:
					at = at.Add(hourSeconds * time.Second)
				default:
					at = at.Add(partSeconds * time.Second)
				}
				d := denialOf(limit(i), fmt.Sprint(i, strings.Repeat("x", random.IntN(10_000))))
				d.Entries = append(d.Entries, d.Entries[0], d.Entries[0], d.Entries[0])
				r.Record(at, d)
			}
			if got := heap() - before; got > 8<<20 {
				t.Errorf("it takes %d KiB, want at most 8 MiB", got>>10)
			} else {
				t.Logf("%d KiB", got>>10)
			}
			runtime.KeepAlive(r)
		})
	}
}

// TestHostileValuesInDenials records bytes that are no text, and texts that are too long.
func TestHostileValuesInDenials(t *testing.T) {
	long := strings.Repeat("ö", 5000)
	for _, tt := range []struct {
		name, key, value string
		want             string // of the descriptor
	}{
		{"text", "user", "größer", `{"entries":[{"key":"user","value":"größer"}]}`},
		{"no value", "user", "", `{"entries":[{"key":"user","value":""}]}`},
		{"control characters", "u\n", "\x1b[31m\r\n\x00", `{"entries":[{"key":"u\n","value":"\u001b[31m\r\n\u0000"}]}`},
		{"no UTF-8", "u\xff", "a\xc3(", `{"entries":[{"key":"u�","key_base64":"df8=","value":"a�(","value_base64":"YcMo"}]}`},
		{"long", "user", long, `{"entries":[{"key":"user","value":"` + long[:128] + `","value_bytes":10000}],"digest":"DIGEST"}`},
		{"long key", long, "x", `{"entries":[{"key":"` + long[:64] + `","key_bytes":10000,"value":"x"}],"digest":"DIGEST"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRecorder(noon)
			d := denialOf(newLimit(t, "user"), tt.value)
			d.Entries[0].Key = tt.key
			r.Record(noon, d)
			s := r.Denials(noon, MaxKeys)
			shown := s.Last[0].Descriptor
			got, err := json.Marshal(shown)
			if err != nil || !utf8.Valid(got) {
				t.Fatal(err, got)
			}
			if want := strings.ReplaceAll(tt.want, "DIGEST", shown.Digest); string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if fmt.Sprint(s.Minute.Limits[0].Keys[0].Descriptor) != fmt.Sprint(shown) {
				t.Error("the window shows another one")
			}
		})
	}
}

// TestLongTextsStayApart counts users whose names begin alike.
func TestLongTextsStayApart(t *testing.T) {
	r, l := NewRecorder(noon), newLimit(t, "user")
	begin := strings.Repeat("x", 1000)
	deny(r, noon, l, begin+"1", 2)
	deny(r, noon, l, begin+"2", 3)
	keys := r.Denials(noon, MaxKeys).Minute.Limits[0].Keys
	if len(keys) != 2 || keys[0].Denied != 3 || keys[1].Denied != 2 || keys[0].Descriptor.Digest == keys[1].Descriptor.Digest {
		t.Errorf("got %+v", keys)
	}
}

// TestRecordAtOnce records and reads in many goroutines; no denial is lost.
func TestRecordAtOnce(t *testing.T) {
	r, l := NewRecorder(noon), newLimit(t, "user")
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 2000 {
				deny(r, noon, l, fmt.Sprint(i%(g+1)), 1)
				if i%500 == 0 {
					r.Denials(noon, MaxKeys)
				}
			}
		})
	}
	all.Wait()
	if got := r.Denials(noon, MaxKeys).Minute.Limits[0]; got.Denied != 32_000 || got.Error != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestRecordDoesNotAllocate records what is known, and what is new.
func TestRecordDoesNotAllocate(t *testing.T) {
	r, l := NewRecorder(noon), newLimit(t, "user")
	users := make([]*Denial, 10_000)
	for i := range users {
		users[i] = denialOf(l, fmt.Sprint(i))
		r.Record(noon, users[i])
	}
	i := 0
	if allocs := testing.AllocsPerRun(5000, func() { r.Record(noon, users[i]); i++ }); allocs > 0 {
		t.Errorf("new keys: %v allocations", allocs)
	}
	if allocs := testing.AllocsPerRun(1000, func() { r.Record(noon, users[0]) }); allocs > 0 {
		t.Errorf("a known key: %v allocations", allocs)
	}
}

func BenchmarkRecord(b *testing.B) {
	l := newLimit(b, "user")
	for _, users := range []int{1, 100, 1000, 10000} {
		denials := make([]*Denial, users)
		for i := range denials {
			denials[i] = denialOf(l, fmt.Sprint("user-", i))
		}
		b.Run(fmt.Sprint("users=", users), func(b *testing.B) {
			began := time.Now()
			r := NewRecorder(began)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				at, order := began, rand.New(rand.NewPCG(1, 2))
				for pb.Next() {
					at = at.Add(40 * time.Microsecond) // as of 25,000 a second
					r.Record(at, denials[order.IntN(users)])
				}
			})
		})
	}
}
