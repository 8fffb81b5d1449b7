package bench

import (
	"strings"
	"testing"
	"time"
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
	if err := result.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	want := `target      a:8081, unix:/b
domain      shop
descriptor  user={},path=/a
descriptor  all=
traffic     70 keys, hits_addend 3
load        open loop at 2500/s, 5 callers, 2 connections with TLS, 1.5 s measured
sent        2000  996 of them in the warm-up of 0.25 s, which is not measured
answered    1001  667/s while sending
ok          1000  99.9 %
over limit  1  0.1 %
no limit    7  0.7 %
failed      3  Canceled 2  Unavailable 1  last: gone
never sent  4, all callers were busy
latency     p50 501µs  p90 901µs  p99 991µs  p99.9 1ms  max 2.000895s  mean 2.498ms
            includes failed and unsent requests, with the time they waited
sent late   p50 0s  p90 0s  p99 0s  p99.9 0s  max 0s  mean 0s
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}
