package operators

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// denialOf returns a denial of a user by a limit.
func denialOf(l *limiter.Limit, user string) *Denial {
	return &Denial{Limit: l, RetryAfter: time.Second, Asked: Asked{
		Domain: "api", Entries: []limiter.Entry{{Key: "user", Value: user}},
		Key: []byte("w1|api|" + string(l.Series) + "|" + user),
	}}
}

// noon is the time at which tests start, when a sub-window of both windows starts.
var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// deny records n denials of a user.
func deny(r *Recorder, now time.Time, l *limiter.Limit, user string, n int) {
	for range n {
		r.Record(now, denialOf(l, user))
	}
}

// flood records one denial of each of n users within a second.
func flood(r *Recorder, from time.Time, l *limiter.Limit, n int) {
	for i := range n {
		deny(r, from.Add(time.Duration(i)*time.Second/time.Duration(n)), l, fmt.Sprint("random-", rand.Uint64()), 1)
	}
}

// shown returns the denials of a recorder as a server that runs alone shows them.
func shown(r *Recorder, at time.Time) Denials { return mergeDenials(r.Denials(at)) }

// counts returns the denials of a window by rule and user.
func counts(w Window) map[string]uint64 {
	got := map[string]uint64{}
	for _, l := range w.Limits {
		for _, k := range l.Keys {
			got[l.Rule+"/"+k.Descriptor.Entries[0].Value] = k.Denied
		}
	}
	return got
}

// TestWindowsPass reads the windows during an hour.
func TestWindowsPass(t *testing.T) {
	l := newLimit(t, "user")
	r := NewRecorder(noon)
	deny(r, noon, l, "early", 3)
	at := noon
	for _, step := range []struct {
		wait         time.Duration
		user         string // denied twice at that time
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
		s := shown(r, at)
		if minute, hour := counts(s.Minute), counts(s.Hour); !maps.Equal(minute, step.minute) || !maps.Equal(hour, step.hour) {
			t.Errorf("after %v: got %v, want %v in a minute; got %v, want %v in an hour", step.wait, minute, step.minute, hour, step.hour)
		}
		if len(s.Last) != len(step.hour) || len(find(s, step.user)) != 1 || !s.Last[0].Last.Equal(at) {
			t.Errorf("last after %v: got %+v", step.wait, s.Last)
		}
		old := at.Sub(noon) // a window does not start before the recorder
		if age := at.Sub(s.Minute.From); age < min(50*time.Second, old) || age >= time.Minute || age > old {
			t.Errorf("the minute is %v long", age)
		}
		if age := at.Sub(s.Hour.From); age < min(55*time.Minute, old) || age >= time.Hour || age > old {
			t.Errorf("the hour is %v long", age)
		}
	}
	// Old denials expire even if there are no new ones.
	s := shown(r, at.Add(time.Hour))
	testenv.Equal(t, len(s.Minute.Limits)+len(s.Hour.Limits)+len(s.Last), 0, "denials in %+v", s)
	// If the clock steps back, denials still count.
	deny(r, noon.Add(-time.Hour), l, "frank", 1)
	testenv.Equal(t, counts(shown(r, at.Add(time.Hour)).Minute)["user/frank"], 1, "denials of frank")
}

// TestDenialsAsJSON checks all fields of denials.
func TestDenialsAsJSON(t *testing.T) {
	r := NewRecorder(noon)
	l, shadowed := newLimit(t, "user"), newLimit(t, "tenant")
	deny(r, noon, l, "alice", 2)
	d := denialOf(l, "alice")
	d.RequestID = "7f\xff" + strings.Repeat("a", 100)
	r.Record(noon.Add(7*time.Second+123456789), d)
	d = denialOf(shadowed, "bob")
	d.Shadow, d.RetryAfter = true, limiter.Never
	r.Record(noon.Add(8*time.Second), d)
	here := r.Denials(noon.Add(9 * time.Second))
	here.locate(func(places map[limiter.Series]string) {
		for series := range places {
			if series == l.Series {
				places[series] = "rules.yaml:3:5"
			}
		}
	})
	s := mergeDenials(here)
	testenv.EqualDeep(t, s.Minute.Limits, s.Hour.Limits, "denials of the minute, and of the hour")
	s.Hour = Window{}
	got := testenv.Must(json.Marshal(s))(t)
	id := `,"request_id":"7f` + "\uFFFD" + strings.Repeat("a", requestSize-3) + `"`
	const alice = `"descriptor":{"entries":[{"key":"user","value":"alice"}]},"first":"2026-08-01T12:00:00Z","last":"2026-08-01T12:00:07.123Z"`
	const bob = `"descriptor":{"entries":[{"key":"user","value":"bob"}]},"first":"2026-08-01T12:00:08Z","last":"2026-08-01T12:00:08Z","retry_after":null`
	const user, tenant = `"domain":"api","rule":"user","location":"rules.yaml:3:5","limit":"minute","rate":"5 per minute"`, `"domain":"api","rule":"tenant","limit":"minute","rate":"5 per minute","shadow":true`
	one, three := `,"minutes":[{"denied":1}]`, `,"minutes":[{"denied":3`+id+`}]`
	id += `,"retry_after":1`
	want := `{"at":"2026-08-01T12:00:09Z","minute":{"from":"2026-08-01T12:00:00Z","limits":[` +
		`{` + user + `,"denied":3,"error":0,"keys":[{` + alice + id + `,"denied":3,"error":0}],"others_at_most":0},` +
		`{` + tenant + `,"denied":1,"error":0,"keys":[{` + bob + `,"denied":1,"error":0}],"others_at_most":0}` +
		`],"others_at_most":0},"hour":{"from":"0001-01-01T00:00:00Z","limits":null,"others_at_most":0},"last":[` +
		`{` + tenant + `,` + bob + one + `,"count":1},{` + user + `,` + alice + id + three + `,"count":3}],"servers":1}`
	testenv.Equal(t, string(got), want, "text")
}

// TestMinutes denies a user in two bursts on two servers. The bursts stay apart, each with the ID of
// its last request. So do denials by another amount of the limit, and all are gone an hour later.
func TestMinutes(t *testing.T) {
	l, at := newLimit(t, "user"), func(minute, second int) time.Time {
		return noon.Add(time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
	}
	var reports []Denials
	for server, minutes := range [][]int{{0, 0, 7, 7, 7, 8}, {2, 7, 14}} {
		r := NewRecorder(noon)
		for i, minute := range minutes {
			d := denialOf(l, "alice")
			d.RequestID = fmt.Sprintf("%d-%d", server, i)
			r.Record(at(minute, 10+i), d)
		}
		deny(r, at(14, 30), l, "bob", 1)
		deny(r, at(14, 40), l.Times(10), "alice", 2)
		deny(r, at(14, 50), l.Times(10), "bob", 3)
		d := r.Denials(at(14, 59))
		d.fit(reportBytes)
		text := testenv.Must(json.Marshal(d))(t)
		var report Denials
		testenv.OK(t, json.Unmarshal(text, &report))
		reports = append(reports, report)
	}
	merged := mergeDenials(reports...)
	got := map[string]string{}
	for _, e := range find(merged, "alice") {
		for _, b := range e.Bars(at(14, 59)) {
			got[e.Rate] += fmt.Sprintf("%s %d %.1f %d %s, ", b.At.Format("15:04"), b.Denied, b.Height, b.Place, b.RequestID)
		}
		if late := e.Bars(at(14+60, 0)); len(late) > 0 || e.Count != map[string]uint64{"5 per minute": 9, "50 per minute": 4}[e.Rate] {
			t.Errorf("got %+v, and later %+v", e, late)
		}
	}
	want := map[string]string{
		"5 per minute":  "12:14 1 0.2 59 1-2, 12:08 1 0.2 53 0-5, 12:07 4 1.0 52 1-1, 12:02 1 0.2 47 1-0, 12:00 2 0.5 45 0-1, ",
		"50 per minute": "12:14 4 1.0 59 , ",
	}
	testenv.EqualDeep(t, got, want, "bars")
	for _, l := range merged.Hour.Limits {
		if denied := map[string]uint64{"5 per minute": 11, "50 per minute": 10}[l.Rate]; l.Denied != denied || len(l.Keys) != 2 || l.Keys[0].Minutes != nil {
			t.Errorf("got %+v", l)
		}
	}
}

// find returns the last denials of a user.
func find(s Denials, user string) (found []LastDenial) {
	for _, e := range s.Last {
		if e.Descriptor.Entries[0].Value == user {
			found = append(found, e)
		}
	}
	return found
}

// TestFloodLeaves denies some users, then a flood of random users. Ten minutes later, the users of
// earlier minutes and of other limits, and frequently denied users, are still known.
func TestFloodLeaves(t *testing.T) {
	r := NewRecorder(noon)
	quiet, flooded := newLimit(t, "quiet"), newLimit(t, "flooded")
	for i := range 7 {
		d := denialOf(flooded, "earlier")
		d.RequestID = fmt.Sprint("request-", i)
		r.Record(noon.Add(time.Duration(i)*time.Second), d)
	}
	at := noon.Add(5 * time.Minute)
	deny(r, at, quiet, "alice", 3)
	deny(r, at, flooded, "abuser", 700)
	for range 10 {
		flood(r, at, flooded, 20_000)
		at = at.Add(time.Second)
		deny(r, at, flooded, "abuser", 700)
	}
	at = at.Add(10 * time.Minute)
	s := shown(r, at)
	if len(s.Last) < 50 || len(s.Last) > maxLast {
		t.Errorf("got %d last denials", len(s.Last))
	}
	for user, want := range map[string]uint64{"earlier": 7, "alice": 3, "abuser": 7700} {
		got := find(s, user)
		if len(got) != 1 || got[0].Count != want {
			t.Errorf("%s was denied %d times, got %+v", user, want, got)
		}
	}
	if got := find(s, "earlier")[0]; got.RequestID != "request-6" || !got.First.Equal(noon) || !got.Last.Equal(noon.Add(6*time.Second)) {
		t.Errorf("got %+v", got)
	}
	top := s.Hour.Limits[0]
	if top.Rule != "flooded" || top.Keys[0].Descriptor.Entries[0].Value != "abuser" || top.OthersAtMost > 2*210_000/sketchSize {
		t.Errorf("got %+v", top)
	}
	testenv.Equal(t, counts(s.Hour)["quiet/alice"], 3, "denials of alice in %v", counts(s.Hour))
}

// TestMemoryIsBounded records the largest denials: long values and IDs of many limits that the
// rules no longer have, in each sub-window of an hour.
func TestMemoryIsBounded(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, r, random, at := heap(), NewRecorder(noon), rand.New(rand.NewPCG(1, 2)), noon
	const fill = 2 * sketchSize
	for i := range fill * (hourParts + 6) {
		switch {
		case i%fill > 0:
		case i < fill*hourParts:
			at = at.Add(5 * time.Minute)
		default:
			at = at.Add(10 * time.Second)
		}
		l := newLimit(t, fmt.Sprint("tenant=", i, "|user|path=/a/long/way"))
		d := denialOf(l, fmt.Sprint(i, strings.Repeat("x", random.IntN(10_000))))
		d.Entries = append(d.Entries, d.Entries[0], d.Entries[0], d.Entries[0])
		d.RequestID = strings.Repeat("i", random.IntN(10_000))
		r.Record(at.Add(time.Duration(i%fill)*time.Millisecond), d)
	}
	if got := heap() - before; got > 12<<20 {
		t.Errorf("it takes %d KiB, want at most 12 MiB", got>>10)
	}
	runtime.KeepAlive(r)
}

// TestLongTextsStayApart counts users whose long names differ only at the end.
func TestLongTextsStayApart(t *testing.T) {
	r, l := NewRecorder(noon), newLimit(t, "user")
	begin := strings.Repeat("x", 1000)
	deny(r, noon, l, begin+"1", 2)
	deny(r, noon, l, begin+"2", 3)
	keys := shown(r, noon).Minute.Limits[0].Keys
	if len(keys) != 2 || keys[0].Denied != 3 || keys[1].Denied != 2 || keys[0].Descriptor.Digest == keys[1].Descriptor.Digest {
		t.Errorf("got %+v", keys)
	}
}

// TestRecordAtOnce records and reads in many goroutines. No denial is lost.
func TestRecordAtOnce(t *testing.T) {
	r, l := NewRecorder(noon), newLimit(t, "user")
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			deny(r, noon, l, fmt.Sprint(g%5), 2000)
			shown(r, noon)
		})
	}
	all.Wait()
	if got := shown(r, noon).Minute.Limits[0]; got.Denied != 32_000 || got.Error != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestMergeIsRight merges reports of servers as they come from Redis, and compares the result with
// exact counts.
func TestMergeIsRight(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	steep := rand.NewZipf(r, 2, 1, 1e6)
	limits := []*limiter.Limit{newLimit(t, "a"), newLimit(t, "b"), newLimit(t, "c")}
	for name, next := range map[string]func(n int) (limit, user int){ // the sketch's test has more
		"zipf, 5 limits":              func(int) (int, int) { return r.IntN(5), int(steep.Uint64()) },
		"a flood beside quiet limits": func(n int) (int, int) { return min(n%100, 1), n % 1000 * min(n%100, 1) },
		"limits that come and go":     func(n int) (int, int) { return n / 500 % 7 * (n % 3), n % 97 },
	} {
		t.Run(name, func(t *testing.T) {
			exact := map[string]uint64{}
			perLimit := map[string]uint64{}
			var summaries []Denials
			for server := range 3 {
				perServer := map[string]uint64{}
				recorder := NewRecorder(noon)
				for n := range 5000 {
					limit, user := next(server*1000 + n)
					l := limits[limit%(server+1)] // the first server does not see all limits
					deny(recorder, noon, l, fmt.Sprint(user), 1)
					rule := l.Series.Labels().Rule
					exact[rule+"/"+fmt.Sprint(user)]++
					perServer[rule+"/"+fmt.Sprint(user)]++
					perLimit[rule]++
				}
				s := recorder.Denials(noon.Add(time.Duration(server) * time.Second))
				s.fit(8000 << (8 * server)) // the first server's report loses keys
				text := testenv.Must(json.Marshal(s))(t)
				s = Denials{}
				testenv.OK(t, json.Unmarshal(text, &s))
				summaries = append(summaries, s)
				checkOthers(t, s.Minute, perServer)
			}
			merged := mergeDenials(summaries...)
			if !merged.At.Equal(noon.Add(2*time.Second)) || len(merged.Last) > maxLast || !merged.Minute.From.Equal(summaries[0].Minute.From) {
				t.Errorf("got at %v, %d last, from %v", merged.At, len(merged.Last), merged.Minute.From)
			}
			for _, e := range merged.Last {
				if name := e.Rule + "/" + e.Descriptor.Entries[0].Value; e.Count > exact[name] || find(merged, e.Descriptor.Entries[0].Value)[0].Last != noon {
					t.Errorf("%s was denied %d times, got %+v", name, exact[name], e)
				}
			}
			for _, w := range []Window{merged.Minute, merged.Hour} {
				for _, l := range w.Limits {
					if n := perLimit[l.Rule]; l.Denied < n || l.Denied-l.Error > n {
						t.Errorf("limit %s denied %d, got %d with an error of %d", l.Rule, n, l.Denied, l.Error)
					}
					if len(l.Keys) > maxKeys {
						t.Errorf("got %d keys", len(l.Keys))
					}
					for _, k := range l.Keys {
						name := l.Rule + "/" + k.Descriptor.Entries[0].Value
						if n := exact[name]; k.Denied < n || k.Denied-k.Error > n {
							t.Errorf("%s was denied %d times, got %d with an error of %d", name, n, k.Denied, k.Error)
						}
					}
				}
				checkOthers(t, w, exact)
			}
		})
	}
}

// TestMergeOfListedLimit merges a limit that only one window lists.
func TestMergeOfListedLimit(t *testing.T) {
	listed := func(denied, wrong, others uint64) Window {
		return Window{Limits: []LimitDenials{{Denied: denied, Error: wrong, OthersAtMost: others}}, OthersAtMost: 10}
	}
	merged := mergeWindows([]Window{listed(50, 4, 2), {OthersAtMost: 7}, listed(60, 5, 3)})
	want := Window{Limits: []LimitDenials{{Denied: 117, Error: 16, OthersAtMost: 12}}, OthersAtMost: 27}
	testenv.EqualDeep(t, merged, want, "the merged window")
}

// checkOthers compares the bounds for keys that a window does not list with exact counts.
func checkOthers(t *testing.T, w Window, exact map[string]uint64) {
	t.Helper()
	listed := counts(w)
	for _, l := range w.Limits {
		for name, n := range exact {
			if _, known := listed[name]; !known && name[:1] == l.Rule && n > l.OthersAtMost {
				t.Errorf("%s was denied %d times, others at most %d", name, n, l.OthersAtMost)
			}
		}
	}
}
