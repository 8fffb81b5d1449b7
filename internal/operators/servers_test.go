package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/testenv"
)

// reporting is a Shared that has one more report after the first call.
type reporting struct {
	Shared
	asked, failed int
}

func (r *reporting) Reports(context.Context, time.Duration) (map[string]string, error) {
	if r.asked++; r.asked == r.failed {
		return nil, limiter.ErrUnavailable
	}
	reports := map[string]string{"two": `{"uses":{"x":2}}`, "garbage": "\x1f\x8b", "text": "no JSON"}
	if r.asked > 1 {
		reports["four"] = `{"uses":{"x":4}}`
	}
	return reports, nil
}

// TestReports waits for the first reports, and again after a pause, but not each time. It skips
// reports of other versions and other texts. Redis fails the fourth time.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reporting{failed: 4}
		s := NewServers(r)
		for _, asked := range []int{2, 3, 4, 6} {
			reports, err := s.Reports(t.Context())
			if r.asked != asked || (err != nil) != (asked == 4) || err == nil && len(reports) != 2 {
				t.Errorf("got %+v in %d calls, error %v", reports, r.asked, err)
			}
			if asked == 4 {
				time.Sleep(reportsWanted)
			}
		}
	})
}

// meeting is a Shared on which another server is present, until it fails.
type meeting struct {
	Shared
	failing error
	states  []string // states that this server has sent
}

func (m *meeting) ReportsWanted(context.Context) (bool, error) { return false, m.failing }

func (m *meeting) Present(_ context.Context, server string, state []byte, _ time.Duration) (map[string]string, error) {
	m.states = append(m.states, string(state))
	if m.failing != nil {
		return nil, m.failing
	}
	return map[string]string{server: string(state), "other": "its state"}, nil
}

// TestMeeting sends a state every five seconds. While Redis fails, the others stay known for a while.
func TestMeeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(meeting)
		s := NewServers(m)
		want := func(others int, failing bool) {
			t.Helper()
			if got := s.Others(); len(got) != others || others == 1 && got["other"] != "its state" || (s.Silence() != nil) != failing {
				t.Errorf("%d states sent: got %v, silence %v", len(m.states), got, s.Silence())
			}
		}
		want(0, false)
		go s.Run(t.Context(), func() any { return len(m.states) }, nil)
		time.Sleep(time.Minute)
		want(1, false)
		if len(m.states) < 11 || len(m.states) > 13 || m.states[3] != "3" {
			t.Errorf("sent %q in a minute", m.states)
		}
		synctest.Wait() // Run is asleep
		m.failing = limiter.ErrUnavailable
		time.Sleep(8 * time.Second)
		want(1, true)
		time.Sleep(presentLasts)
		want(0, true)
		synctest.Wait()
		m.failing = nil
		time.Sleep(8 * time.Second)
		want(1, false)
	})
}

// TestReportsFit makes reports of many limits and keys with long texts, some of which are six times
// as long in JSON. All reports have the keys with the most denials.
func TestReportsFit(t *testing.T) {
	for text, limits := range map[string]int{"x": 1, "y": 100, "\x00": 100, "z": 5000} {
		at := time.Now()
		random, recorder := rand.New(rand.NewPCG(1, 2)), NewRecorder(at)
		for i := range hourParts * sketchSize {
			if i%sketchSize == 0 {
				at = at.Add(5 * time.Minute)
			}
			value := strings.Repeat(text, 100) + string(limiter.AppendDigest(nil, fmt.Sprint(random.Uint64())))
			deny(recorder, at, newLimit(t, fmt.Sprint("rule", i%limits)), value, 1)
		}
		deny(recorder, at, newLimit(t, "rule0"), "abuser", 50)
		d := Desk{Recorder: recorder, Shares: noShares, Spending: NewSpending(prometheus.NewRegistry()), Tree: func() *descriptors.Tree { return nil }, InForce: NewExceptionStore(nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))}
		data := testenv.Must(json.Marshal(d.Report()))(t)
		var report Report
		testenv.OK(t, json.Unmarshal(data, &report))
		hour := report.Denials.Hour
		first := hour.Limits[0]
		if len(data) > 301<<10 || len(data) < 100<<10 || len(hour.Limits) != min(limits, maxLimits) || first.Keys[0].Descriptor.Entries[0].Value != "abuser" || hour.OthersAtMost+first.OthersAtMost == 0 {
			t.Errorf("%q: got %d bytes, %d limits, first %s with %d keys, others at most %d and %d", text, len(data), len(hour.Limits), first.Rule, len(first.Keys), hour.OthersAtMost, first.OthersAtMost)
		}
	}
}
