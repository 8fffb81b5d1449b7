package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/redis"
	"weir/internal/testenv"
)

// runServer runs one of several servers on a Redis, which reports that x was used so often.
func runServer(t *testing.T, r *testenv.Redis, uses uint64) (s *Servers, stop func()) {
	t.Helper()
	shared := testenv.Must(redis.OpenShared(redis.Server{Addr: r.Addr()}, ""))(t)
	s = NewServers(shared)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx, func() Report { return Report{Uses: map[string]uint64{"x": uses}} })
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(func() {
		stop()
		testenv.OK(t, shared.Close())
	})
	return s, stop
}

// wantOthers waits until the others of s report that sum, from so many servers.
func wantOthers(t *testing.T, s *Servers, servers int, sum uint64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		reports, err := s.Reports(t.Context())
		var got uint64
		for _, r := range reports {
			got += r.Uses["x"]
		}
		if err != nil || len(reports) != servers || got != sum {
			return fmt.Errorf("got %d from %d servers, error %v, want %d from %d", got, len(reports), err, sum, servers)
		}
		return nil
	})
}

// TestServersReport lets servers come, report and go, and Redis fail and lose all.
func TestServersReport(t *testing.T) {
	t.Parallel()
	r := testenv.RedisServer(t)
	one, _ := runServer(t, r, 1)
	wantOthers(t, one, 0, 0)
	two, _ := runServer(t, r, 2)
	_, stop := runServer(t, r, 4)
	if reports, err := two.Reports(t.Context()); err != nil || len(reports) != 2 {
		t.Errorf("the first question: got %d reports, error %v", len(reports), err)
	}
	wantOthers(t, one, 2, 6)
	wantOthers(t, two, 2, 5)
	stop()
	wantOthers(t, one, 1, 2)
	// One of another version, or who knows who, says nothing that is understood.
	testenv.OK(t, two.shared.Report(t.Context(), "garbage", []byte("\x1f\x8b")))
	testenv.OK(t, two.shared.Report(t.Context(), "text", []byte("{}")))
	wantOthers(t, one, 1, 2)
	r.Stop()
	testenv.Eventually(t, func() error {
		if _, err := one.Reports(t.Context()); err == nil {
			return fmt.Errorf("got no error")
		}
		return nil
	})
	r.Start() // empty
	wantOthers(t, one, 1, 2)
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
