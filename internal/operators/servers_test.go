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
		d := Desk{Recorder: recorder, Spending: NewSpending(prometheus.NewRegistry()), Tree: func() *descriptors.Tree { return nil }, InForce: NewExceptionStore(nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))}
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
