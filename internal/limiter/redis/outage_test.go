package redis

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

// An outage is logged at once, then once a minute, and so is its end.
func TestOutageIsLoggedSparingly(t *testing.T) {
	timeout := fmt.Errorf("no answer: %w", context.DeadlineExceeded)
	const fails = `WARN "redis is failing, failure modes apply" kind=timeout err="no answer: context deadline exceeded" `
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newHealth(nil, "", nil, func() *slog.Logger { return slog.New(slog.NewTextHandler(&log, nil)) })
		for i, s := range []struct {
			after time.Duration // on synctest's clock
			err   error
			want  string // logged then
		}{
			{time.Hour, nil, ""},
			{time.Second, timeout, fails + "failed_calls=1 for=0s"},
			{2 * time.Second, nil, `INFO "redis works again" after=2s`},
			{time.Second, nil, ""},
			// It fails for long.
			{reminder, timeout, fails + "failed_calls=1 for=0s"},
			{30 * time.Second, timeout, ""},
			{30 * time.Second, timeout, fails + "failed_calls=2 for=1m0s"},
			{time.Second, timeout, ""},
			{time.Second, nil, `INFO "redis works again" after=1m2s`},
			// It fails again soon, which is logged only if it goes on.
			{time.Second, timeout, ""},
			{time.Second, nil, ""},
			{time.Second, timeout, ""},
			{time.Minute, timeout, fails + "failed_calls=4 for=1m0s"},
			{time.Second, nil, `INFO "redis works again" after=1m1s`},
		} {
			time.Sleep(s.after)
			h.observe(s.err)
			_, got, _ := strings.Cut(log.String(), "level=")
			if got = strings.TrimSpace(strings.Replace(got, "msg=", "", 1)); got != s.want {
				t.Errorf("step %d: logged\n%s, want\n%s", i, got, s.want)
			}
			log.Reset()
		}
	})
}

func TestState(t *testing.T) {
	s := newFixture(t, Options{})
	if got := s.State(); got != (State{Breaker: "closed"}) {
		t.Errorf("before any call: %+v", got)
	}
	mustAsk(t, s, "k", perYear)
	worked := s.State()
	if worked.WorkedAt.IsZero() || worked != (State{WorkedAt: worked.WorkedAt, Breaker: "closed"}) {
		t.Errorf("after a decision: %+v", worked)
	}
	s.do("replicaof", "127.0.0.1", "1")
	mustFail(t, s)
	mustFail(t, s)
	failed := s.State() // TestRefusals knows why
	if failed.WorkedAt != worked.WorkedAt || failed.FailingSince.Before(worked.WorkedAt) || !failed.FailedAt.After(failed.FailingSince) {
		t.Errorf("times of a failure: %+v after %+v", failed, worked)
	}
	s.do("replicaof", "no", "one")
	mustAsk(t, s, "k", perYear)
	if again := s.State(); !again.FailingSince.IsZero() || !again.WorkedAt.After(failed.FailedAt) || again.FailedAt != failed.FailedAt || again.Problem != failed.Problem {
		t.Errorf("after the failure: %+v", again)
	}
}
