package simulate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// steps returns entries of a few clients, at equal intervals.
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
	return logFile(t, b.String())
}

// Gaps between lines, such as nights, do not make lines late.
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
			for i := 0; i+4 < len(list) && name != "line by day"; i += 7 { // lines move by at most half a second
				random.Shuffle(4, func(a, b int) { list[i+a], list[i+b] = list[i+b], list[i+a] })
			}
			r := mustRun(t, Options{Logs: []string{jsonLog(t, list)}, Envoy: config, Rules: tree})
			if r.Denied != uint64(len(want)) || r.Late != 0 {
				t.Errorf("%d are denied, want %d; %d late: %v", r.Denied, len(want), r.Late, r.Notes)
			}
		})
	}
}

// Lines that come too late are counted, and a note names the first. If there are many, the note is a warning.
func TestLate(t *testing.T) {
	for _, last := range []int{2007, 2900} {
		list := steps(3000, 200*time.Millisecond)
		for i := 2000; i < last; i++ {
			list[i].at = list[i].at.Add(-15 * time.Minute)
		}
		log := jsonLog(t, list)
		r := mustRun(t, Options{Logs: []string{log}, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, perAddress)})
		want := fmt.Sprintf("%d lines are more than a minute late, and were decided when they came, the first at %s:2001", last-2000, log)
		said := map[int][]string{2007: r.Notes, 2900: r.Warnings}[last]
		if r.Late != int64(last-2000) || !slices.Contains(said, want) {
			t.Errorf("%d late, notes are %q, warnings are %q, want %q", r.Late, r.Notes, r.Warnings, want)
		}
	}
}
