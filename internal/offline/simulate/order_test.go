package simulate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// steps returns entries of a few clients, at intervals.
func steps(n int, interval time.Duration) (list []entry) {
	at := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for i := range n {
		list = append(list, entry{at.Add(time.Duration(i) * interval), fmt.Sprintf("10.0.0.%d", i%3), "", "/"})
	}
	return list
}

func jsonLog(t *testing.T, list []entry) string {
	t.Helper()
	var b bytes.Buffer
	for _, e := range list {
		b.WriteString(e.json() + "\n")
	}
	return logFile(t, b.Bytes())
}

// some returns all numbers below n that which is true of.
func some(n int, which func(i int) bool) (list []int) {
	for i := range n {
		if which(i) {
			list = append(list, i)
		}
	}
	return list
}

// Lines with a time far ahead change nothing for the others, wherever they are: they are counted, the first
// are named, and they are decided with the lines around them.
func TestAhead(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for name, test := range map[string]struct {
		n        int
		interval time.Duration
		wrong    []int
		by       time.Duration
	}{
		"a few of 2030":      {8_000, 50 * time.Millisecond, []int{2000, 2001, 5_345}, 4 * 365 * 24 * time.Hour},
		"the first of 2030":  {8_000, 50 * time.Millisecond, []int{0, 1, 2}, 4 * 365 * 24 * time.Hour},
		"an hour ahead":      {8_000, 50 * time.Millisecond, some(8_000, func(int) bool { return random.IntN(100) == 0 }), time.Hour},
		"a fifth 2 minutes":  {8_000, 5 * time.Millisecond, some(7_990, func(i int) bool { return i%5 == 0 }), 2 * time.Minute},
		"a run":              {8_000, 50 * time.Millisecond, some(8_000, func(i int) bool { return i >= 3000 && i < 3100 }), time.Hour},
		"a short log":        {5, time.Second, []int{2}, time.Hour},
		"the first of three": {3, time.Second, []int{0}, time.Hour},
		"few lines in a day": {300, 10 * time.Minute, []int{17, 111}, 4 * 365 * 24 * time.Hour},
		"none":               {8_000, 50 * time.Millisecond, nil, 0},
		"ends of all blocks": {8_000, 50 * time.Millisecond, some(7_000, func(i int) bool { return i%97 == 0 }), time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			list := steps(test.n, test.interval)
			options := Options{Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, perAddress)}
			options.Logs = []string{jsonLog(t, list)}
			want := mustRun(t, options)
			for _, i := range test.wrong {
				list[i].at = list[i].at.Add(test.by)
			}
			log := jsonLog(t, list)
			options.Logs = []string{log}
			got := mustRun(t, options)
			if got.Ahead != int64(len(test.wrong)) || got.Late != 0 || !got.Last.Equal(want.Last) || got.First.Sub(want.First) > time.Minute {
				t.Errorf("%d are ahead, want %d; %d late, from %v to %v", got.Ahead, len(test.wrong), got.Late, got.First, got.Last)
			}
			// Those that are ahead move by less than a block.
			if off := int64(got.Denied) - int64(want.Denied); max(off, -off) > int64(len(test.wrong)) {
				t.Errorf("%d are denied, want about %d", got.Denied, want.Denied)
			}
			notes := strings.Join(got.Notes, "\n")
			if len(test.wrong) == 0 != (notes == "") || notes != "" && !strings.Contains(notes, fmt.Sprintf("lines around them, and were decided at the time of those, the first at %s:%d", log, test.wrong[0]+1)) {
				t.Errorf("notes are %q", notes)
			}
		})
	}
}

// One log whose first line is ahead is still merged with others in the order of their times.
func TestAheadInOneOfSeveral(t *testing.T) {
	list := steps(6000, 50*time.Millisecond)
	config, tree := mustEnvoy(t, byAddress), mustRules(t, perAddress)
	want := serverDenies(t, tree, list)
	var parts [2][]entry
	for i, e := range list {
		parts[i%2] = append(parts[i%2], e)
	}
	wrong := parts[0][0]
	wrong.at = wrong.at.AddDate(4, 0, 0)
	parts[0] = slices.Insert(parts[0], 0, wrong)
	r := mustRun(t, Options{Logs: []string{jsonLog(t, parts[0]), jsonLog(t, parts[1])}, Envoy: config, Rules: tree})
	if off := int(r.Denied) - len(want); r.Ahead != 1 || r.Late != 0 || off < 0 || off > 1 {
		t.Errorf("%d are ahead, %d late, %d denied, want %d and one more", r.Ahead, r.Late, r.Denied, len(want))
	}
}

// Gaps are no disorder: nights, days one after the other, and a line now and then.
func TestGaps(t *testing.T) {
	config, tree := mustEnvoy(t, byAddress), mustRules(t, perAddress)
	random := rand.New(rand.NewPCG(6, 6))
	for name, gap := range map[string]func(i int) time.Duration{
		"nights":      func(i int) time.Duration { return time.Duration(i/1500) * 24 * time.Hour },
		"short days":  func(i int) time.Duration { return time.Duration(i/7) * 24 * time.Hour },
		"line by day": func(i int) time.Duration { return time.Duration(i) * 24 * time.Hour },
		"one later":   func(i int) time.Duration { return time.Duration(i/7999) * 24 * time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			list := steps(8000, 100*time.Millisecond)
			for i := range list {
				list[i].at = list[i].at.Add(gap(i))
			}
			want := serverDenies(t, tree, list)
			for i := 0; i+4 < len(list) && name != "line by day"; i += 7 { // within a group, and half a second
				random.Shuffle(4, func(a, b int) { list[i+a], list[i+b] = list[i+b], list[i+a] })
			}
			r := mustRun(t, Options{Logs: []string{jsonLog(t, list)}, Envoy: config, Rules: tree})
			if r.Denied != uint64(len(want)) || r.Late != 0 || r.Ahead != 0 {
				t.Errorf("%d are denied, want %d; %d late, %d ahead: %v", r.Denied, len(want), r.Late, r.Ahead, r.Notes)
			}
		})
	}
}

// Lines that come too late are counted, and the first are named.
func TestLate(t *testing.T) {
	list := steps(3000, 200*time.Millisecond)
	for i := 2000; i < 2007; i++ {
		list[i].at = list[i].at.Add(-5 * time.Minute)
	}
	log := jsonLog(t, list)
	r := mustRun(t, Options{Logs: []string{log}, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, perAddress)})
	want := fmt.Sprintf("7 lines are more than a minute late, and were decided when they came, the first at %s:2001", log)
	if r.Late != 7 || r.Ahead != 0 || !slices.Contains(r.Notes, want) {
		t.Errorf("%d late, %d ahead, notes are %q, want %q", r.Late, r.Ahead, r.Notes, want)
	}
}
