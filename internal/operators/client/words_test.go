package client

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/internal/operators"
	"weir/internal/operators/api"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 s", 0: "0 s", time.Microsecond: "1 ms", 999 * time.Millisecond: "999 ms", time.Second: "1 s", 119 * time.Second: "119 s",
		2 * time.Minute: "2 min", 41*time.Minute + 29*time.Second: "41 min", 2*time.Hour - time.Second: "2 h", 3 * time.Hour: "3 h", 3*time.Hour + 2*time.Minute: "3 h 2 min",
		47 * time.Hour: "47 h", 49 * time.Hour: "2 days", math.MaxInt64: "106751 days",
	} {
		if got := operators.Span(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
	for _, s := range []float64{math.NaN(), math.Inf(1), 1e300, -1e300, math.Inf(-1)} {
		if d := operators.Seconds(s); d < 0 {
			t.Errorf("%v: got %v", s, d)
		}
	}
}

func TestWords(t *testing.T) {
	v := operators.Times{Now: time.Date(2026, 8, 1, 3, 0, 0, 0, time.FixedZone("CEST", 7200))}
	for _, tt := range []struct{ got, want string }{
		{v.Since(v.Now.Add(-time.Hour).UTC()), "since 02:00:00 CEST (60 min)"},
		{v.Ago(v.Now.Add(-4 * time.Hour)), "2026-07-31 23:00:00 CEST (4 h ago)"},
		{v.Until(v.Now), "until 03:00:00 CEST (expired)"},
		{count(10, 0), "10"}, {count(10, 3), "7 to 10"}, {count(10, 11), "0 to 10"},
		{limit("minute", "5 per minute"), "5 per minute"}, {limit("logins", "5 per minute"), "logins, 5 per minute"}, {limit("unlimited", ""), "unlimited"},
		{api.Short("\x1b\x1b", 8), `\x1b\x1b`}, {api.Short("\x1b\x1b", 7), `\x1b\x…`}, {api.Short(strings.Repeat("ö", 10_000), 3), "öö…"}, {api.Short("größer", 6), "größer"},
		{new(Answer).Key("api", operators.Excerpt{Entries: []operators.ExcerptEntry{{Entry: operators.Entry{Key: "user", Value: "a", ValueBase64: "%"}}}}), "user… (cut)"}, // no base64
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}
