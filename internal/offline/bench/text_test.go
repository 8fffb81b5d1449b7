package bench

import (
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

func TestText(t *testing.T) {
	c, due := newRun(closed()), time.Now()
	for us := range 1000 {
		c.record(due, due, due.Add(time.Duration(us+1)*time.Microsecond))
	}
	c.record(due, due, due.Add(2*time.Second))
	result := Result{
		Options: Used{
			Options: Options{
				Servers: []string{"a:8081", "unix:/b"}, Callers: 5, Connections: 2, Rate: 2500,
				Traffic: Traffic{Domain: "shop", Descriptors: [][]Entry{{{"user", "{}"}, {"path", "/a"}}, {{"all", ""}}}, Keys: 70, Hits: 3},
			},
			WithTLS: true, WarmupSeconds: 0.25,
		},
		SentWithWarmup: 2000, Seconds: 1.5,
		Answered: 1001, PerSecond: 667.33, OK: 1000, OverLimit: 1, NoLimit: 7,
		Failed: 3, Errors: map[string]int64{"Unavailable": 1, "Canceled": 2}, LastError: "gone", Unsent: 4,
		Latency: latencies(c.latency), Lateness: latencies(c.lateness),
	}
	var got strings.Builder
	testenv.OK(t, result.WriteText(&got))
	testenv.Golden(t, "testdata/result.txt", got.String())
}
