package denials

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/limiter"
)

// TestMergeIsRight merges what replicas saw, as it comes over the wire, and compares it
// with exact counts.
func TestMergeIsRight(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	limits := []*limiter.Limit{newLimit(t, "a"), newLimit(t, "b"), newLimit(t, "c")}
	for name, next := range streams(r) {
		t.Run(name, func(t *testing.T) {
			exact := map[string]uint64{}
			perLimit := map[string]uint64{}
			var summaries []Summary
			for replica := range 3 {
				perReplica := map[string]uint64{}
				recorder := New(noon)
				for n := range 5000 {
					limit, user := next(replica*1000 + n)
					l := limits[limit%(replica+1)] // one replica does not see all
					record(recorder, noon, l, fmt.Sprint(user), 1)
					rule := l.Series.Labels().Rule
					exact[rule+"/"+fmt.Sprint(user)]++
					perReplica[rule+"/"+fmt.Sprint(user)]++
					perLimit[rule]++
				}
				text, err := json.Marshal(recorder.Summary(noon.Add(time.Duration(replica)*time.Second), 50+1000*replica)) // the first cuts keys off
				if err != nil {
					t.Fatal(err)
				}
				var s Summary
				if err := json.Unmarshal(text, &s); err != nil {
					t.Fatal(err)
				}
				summaries = append(summaries, s)
				checkOthers(t, s.Minute, perReplica)
			}
			merged := Merge(20, summaries...)
			if !merged.At.Equal(noon.Add(2*time.Second)) || len(merged.Last) != MaxLast || !merged.Minute.From.Equal(summaries[0].Minute.From) {
				t.Errorf("got at %v, %d last, from %v", merged.At, len(merged.Last), merged.Minute.From)
			}
			for _, w := range []Window{merged.Minute, merged.Hour} {
				for _, l := range w.Limits {
					if n := perLimit[l.Rule]; l.Denied < n || l.Denied-l.Error > n {
						t.Errorf("limit %s denied %d, got %d with an error of %d", l.Rule, n, l.Denied, l.Error)
					}
					if len(l.Keys) > 20 {
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

// TestMergeOfFewIsExact merges what no replica had to cut.
func TestMergeOfFewIsExact(t *testing.T) {
	a, b, l := New(noon), New(noon), newLimit(t, "user")
	record(a, noon, l, "alice", 3)
	record(b, noon, l, "alice", 4)
	record(b, noon, l, "bob", 1)
	merged := Merge(MaxKeys, a.Summary(noon, MaxKeys), b.Summary(noon, MaxKeys))
	wantCounts(t, "minute", merged.Minute, map[string]uint64{"user/alice": 7, "user/bob": 1})
	if got := merged.Minute.Limits[0]; got.Denied != 8 || got.Error+got.OthersAtMost+got.Keys[0].Error != 0 {
		t.Errorf("got %+v", got)
	}
}
