package operators

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// streams are what clients may do: the nth limit and user. The sketch has a test of more.
func streams(r *rand.Rand) map[string]func(n int) (limit, user int) {
	steep := rand.NewZipf(r, 2, 1, 1e6)
	return map[string]func(n int) (limit, user int){
		"zipf, 5 limits": func(int) (int, int) { return r.IntN(5), int(steep.Uint64()) },
		"new keys only":  func(n int) (int, int) { return 0, n },
		"a flood beside a quiet limit": func(n int) (int, int) {
			if n%100 == 0 {
				return 1, n / 100 % 5
			}
			return 0, n
		},
		"limits that come and go": func(n int) (int, int) { return n / 500 % 7 * (n % 3), n % 97 },
	}
}

// TestMergeIsRight merges what servers saw, as it comes over the wire, and compares it
// with exact counts.
func TestMergeIsRight(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	limits := []*limiter.Limit{newLimit(t, "a"), newLimit(t, "b"), newLimit(t, "c")}
	for name, next := range streams(r) {
		t.Run(name, func(t *testing.T) {
			exact := map[string]uint64{}
			perLimit := map[string]uint64{}
			var summaries []Denials
			for server := range 3 {
				perServer := map[string]uint64{}
				recorder := NewRecorder(noon)
				for n := range 5000 {
					limit, user := next(server*1000 + n)
					l := limits[limit%(server+1)] // one server does not see all
					deny(recorder, noon, l, fmt.Sprint(user), 1)
					rule := l.Series.Labels().Rule
					exact[rule+"/"+fmt.Sprint(user)]++
					perServer[rule+"/"+fmt.Sprint(user)]++
					perLimit[rule]++
				}
				s := recorder.Denials(noon.Add(time.Duration(server) * time.Second))
				s.cutKeys(50 + 1000*server) // the first cuts keys off
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

// checkOthers compares what a window says of keys that it does not list.
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
