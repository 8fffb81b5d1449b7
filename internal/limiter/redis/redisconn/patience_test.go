package redisconn

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestPatience(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		looks []time.Duration // how long each took
		left  time.Duration
	}{
		"nothing yet":                       {nil, 100 * ms},
		"what came at once":                 {[]time.Duration{ms}, 99 * ms},
		"a look":                            {[]time.Duration{25 * ms}, 75 * ms},
		"a look that ended a little late":   {[]time.Duration{30 * ms}, 75 * ms},
		"the process did not run":           {[]time.Duration{300 * ms}, 100 * ms},
		"it did not run in the last look":   {[]time.Duration{25 * ms, 25 * ms, 25 * ms, time.Hour}, 25 * ms},
		"all looks":                         {[]time.Duration{25 * ms, 25 * ms, 25 * ms, 26 * ms}, 0},
		"many short ones, as bytes trickle": {[]time.Duration{20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms}, 0},
	} {
		p := NewPatience(100 * ms)
		for _, took := range c.looks {
			if !p.More() {
				t.Errorf("%s: ended before a look of %v", name, took)
			}
			p.Spend(took)
		}
		if p.left != c.left || p.More() != (c.left > 0) {
			t.Errorf("%s: %v left, want %v", name, p.left, c.left)
		}
	}
}

// TestReadsOfAConnectionEnd has another side that is silent, or sends a byte now and
// then, on a clock of its own.
func TestReadsOfAConnectionEnd(t *testing.T) {
	for name, pause := range map[string]time.Duration{"silent": time.Hour, "a byte now and then": 10 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			defer here.Close()
			tick := time.NewTicker(pause)
			ended := make(chan struct{})
			defer close(ended)
			go func() {
				defer there.Close()
				for {
					select {
					case <-tick.C:
						_, _ = there.Write([]byte("+")) // it ends with here
					case <-ended:
						return
					}
				}
			}()
			c := conn{Conn: here}
			began := time.Now()
			if err := c.SetReadDeadline(began.Add(100 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			_, err := io.Copy(io.Discard, struct{ io.Reader }{&c})
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: got error %v, want %v", name, err, os.ErrDeadlineExceeded)
			}
			if took := time.Since(began); took != 100*time.Millisecond {
				t.Errorf("%s: reads ended after %v, want 100ms", name, took)
			}
		})
	}
}
