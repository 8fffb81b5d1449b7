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

// reporting is a limiter.Shared with reports that are there only when asked for once more.
type reporting struct {
	limiter.Shared
	asked, failed int
}

func (r *reporting) Reports(context.Context) (map[string]string, error) {
	if r.asked++; r.asked == r.failed {
		return nil, limiter.ErrUnavailable
	}
	reports := map[string]string{"two": `{"uses":{"x":2}}`, "garbage": "\x1f\x8b", "text": "no JSON"}
	if r.asked > 1 {
		reports["four"] = `{"uses":{"x":4}}`
	}
	return reports, nil
}

// TestReports waits for the first reports, and again after a while, but not each time. What
// another version says, or who knows who, is not understood. Redis fails the fourth time.
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
				time.Sleep(limiter.ReportsWantedFor)
			}
		}
	})
}

// TestReportsFit makes a report of many limits and keys with long texts.
func TestReportsFit(t *testing.T) {
	at := time.Now()
	random, recorder := rand.New(rand.NewPCG(1, 2)), NewRecorder(at)
	for i := range hourParts * sketchSize {
		if i%sketchSize == 0 {
			at = at.Add(5 * time.Minute)
		}
		value := string(limiter.AppendDigest(nil, fmt.Sprint(random.Uint64())))
		recorder.Record(at, denialOf(newLimit(t, fmt.Sprint("rule", i%100)), strings.Repeat(value, 6)))
	}
	d := Desk{Recorder: recorder, Tree: func() *descriptors.Tree { return nil }, InForce: NewExceptions(nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))}
	data := testenv.Must(json.Marshal(d.Report()))(t)
	var report Report
	if err := json.Unmarshal(data, &report); err != nil || len(data) > 1<<20 || len(report.Denials.Hour.Limits) != 100 || len(report.Denials.Hour.Limits[0].Keys) < 10 {
		t.Errorf("got %d bytes, %d limits, error %v", len(data), len(report.Denials.Hour.Limits), err)
	}
}
