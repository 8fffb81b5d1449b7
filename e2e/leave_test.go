package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"weir/internal/testenv"
)

// A process that is told to end fails its health check and serves on, until the
// pause is over or somebody cuts it short.
func TestPauseBeforeTheDrain(t *testing.T) {
	t.Parallel()
	const ever = 10 * time.Minute // longer than anybody waits
	for _, test := range []struct {
		name    string
		delay   time.Duration
		first   syscall.Signal
		second  syscall.Signal // 0 if there is none
		leaving bool           // whether there is a pause that waits to be seen
	}{
		{"ends by itself", time.Second, syscall.SIGTERM, 0, false},
		{"ends with a second SIGTERM", ever, syscall.SIGTERM, syscall.SIGTERM, true},
		{"ends with SIGINT", ever, syscall.SIGTERM, syscall.SIGINT, true},
		{"is not for SIGINT", ever, syscall.SIGINT, 0, false},
		{"is switched off", 0, syscall.SIGTERM, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := startWeir(t, "config", "DRAIN_DELAY="+test.delay.String())
			begin := time.Now()
			w.signal(test.first)
			if test.leaving {
				testenv.Eventually(t, func() error {
					a, err := fetch("http://" + w.http + "/healthcheck")
					if err == nil && (a.status != 500 || a.body != "draining\n") {
						err = fmt.Errorf("health check: %d %s", a.status, a.body)
					}
					return err
				})
				w.remaining("user", "alice") // on a new connection
			}
			if test.second != 0 {
				w.signal(test.second)
			}
			if code := w.exitCode(); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			if took := time.Since(begin); test.delay != ever && took < test.delay {
				t.Errorf("the pause took %v, want %v", took, test.delay)
			}
		})
	}
}
