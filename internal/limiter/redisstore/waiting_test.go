package redisstore

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestLatenessIsLoggedSparingly(t *testing.T) {
	const late = "WARN redis answers later than callers wait, failure modes decide kind=timeout requests="
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := timeoutLog{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: bare}))}
		want := func(when, want string) {
			t.Helper()
			synctest.Wait()
			l.mu.Lock() // which it holds when it logs
			defer l.mu.Unlock()
			if got := plain(log.String()); got != want {
				t.Errorf("%s: logged\n%s, want\n%s", when, got, want)
			}
			log.Reset()
		}
		l.observe()
		want("at once", late+"1")
		l.observe()
		l.observe()
		want("soon after", "")
		time.Sleep(reminder)
		want("a minute later", late+"2")
		time.Sleep(reminder)
		want("nothing came", "")
		l.observe()
		want("again", late+"1")
		l.observe()
		l.close()
		time.Sleep(reminder)
		want("closed", "")
	})
}
