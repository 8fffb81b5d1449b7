package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := outage{log: slog.New(slog.NewTextHandler(&log, nil))}
		timeout := fmt.Errorf("no answer: %w", context.DeadlineExceeded)
		for _, c := range []struct {
			after time.Duration
			err   error
			want  string
		}{
			{0, nil, ""},
			{0, timeout, `level=WARN msg="redis fails" kind=timeout err="no answer: context deadline exceeded"`},
			{time.Minute, timeout, ""},
			{2 * time.Second, nil, `level=INFO msg="redis works again" after=1m2s`},
			{time.Second, nil, ""},
			{time.Second, timeout, `level=WARN msg="redis fails" kind=timeout err="no answer: context deadline exceeded"`},
			{time.Second, nil, `level=INFO msg="redis works again" after=1s`},
			{time.Second, timeout, ""}, // too soon after the last warning
			{time.Second, nil, ""},
			{quiet, timeout, `level=WARN msg="redis fails" kind=timeout err="no answer: context deadline exceeded"`},
		} {
			time.Sleep(c.after) // synctest's clock
			log.Reset()
			o.observe(c.err)
			got := strings.TrimSpace(log.String())
			if _, message, ok := strings.Cut(got, " "); ok { // without the time
				got = message
			}
			if got != c.want {
				t.Errorf("%v later, after error %v: logged %q, want %q", c.after, c.err, got, c.want)
			}
		}
	})
}
