package rls

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

const unmatchedRules = `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: free}
`

func TestUnmatchedAreCounted(t *testing.T) {
	tests := []struct {
		name, request        string
		descriptors, domains float64
	}{
		{"matched", "user=a", 0, 0},
		{"whitelisted", "free=a", 0, 0},
		{"limit of the request", "typo=a(1/MINUTE)", 0, 0},
		{"one of two", "user=a typo=a", 1, 0},
		{"two of two", "typo=a typo=a", 2, 0},
		{"unknown domain", "domain:typo user=a user=b", 0, 1},
		{"unknown domain, limit of the request", "domain:typo user=a(1/MINUTE)", 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := options(t, unmatchedRules).service()
			if c := decide(t, s, tt.request); c.result.Denied {
				t.Error("the request is denied")
			}
			if got := testutil.ToFloat64(s.metrics.unmatched.WithLabelValues("api")); got != tt.descriptors {
				t.Errorf("%v descriptors, want %v", got, tt.descriptors)
			}
			if got := testutil.ToFloat64(s.metrics.unknownDomains); got != tt.domains {
				t.Errorf("%v requests, want %v", got, tt.domains)
			}
			if got := testutil.CollectAndCount(s.metrics.unmatched); got > 1 {
				t.Errorf("%d series of descriptors, want one of the domain api at most", got)
			}
		})
	}
}

func TestLogTellsOfUnknownDomains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMetrics(prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
		tree := load(t, unmatchedRules)
		lines := func() int { return strings.Count(log.String(), "admitted a request for a domain without rules") }
		for range 3 {
			m.noteUnmatched(tree, "typo", 1)
		}
		m.noteUnmatched(tree, "api", 1)
		if lines() != 1 || !strings.Contains(log.String(), "domain=typo there_are=[api]") {
			t.Errorf("want one line, got\n%s", log.String())
		}
		time.Sleep(tellEvery - 1)
		m.noteUnmatched(tree, "typo", 1)
		if lines() != 1 {
			t.Errorf("within a minute another line:\n%s", log.String())
		}
		time.Sleep(time.Nanosecond)
		m.noteUnmatched(tree, strings.Repeat("x", 1000), 1)
		if lines() != 2 || strings.Contains(log.String(), strings.Repeat("x", maxToldDomain+1)) {
			t.Errorf("want another line of bounded length, got\n%s", log.String())
		}
	})
}
