package e2e

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"weir/internal/testenv"
)

// A client that waits as long as Retry-After says is admitted, whatever the
// algorithm.
func TestRetryAfterIsHonest(t *testing.T) {
	t.Parallel()
	const rules = `
domain: api
descriptors:
  - key: user
    value: window
    rate_limit: {unit: second, unit_multiplier: 2, requests_per_unit: 2}
  - key: user
    value: window of the first hit
    rate_limit: {unit: second, unit_multiplier: 2, requests_per_unit: 2, anchor: first_hit}
  - key: user
    value: sliding window
    rate_limit: {unit: second, requests_per_unit: 2, algorithm: sliding_window}
  - key: user
    value: bucket
    rate_limit: {unit: second, unit_multiplier: 3, requests_per_unit: 2, algorithm: token_bucket}
  - key: user
    value: window and bucket
    rate_limit:
      - {name: window, unit: second, requests_per_unit: 2}
      - {name: bucket, unit: second, unit_multiplier: 2, requests_per_unit: 1, algorithm: token_bucket}
`
	s := startGateway(t, gateway{}, startUpstream(t), rules)
	for range 2 { // the second time the sliding window has a past
		var due []denial
		for _, user := range []string{"window", "window of the first hit", "sliding window", "bucket", "window and bucket"} {
			due = append(due, s.askUntilDenied(user))
		}
		slices.SortFunc(due, func(a, b denial) int { return a.until.Compare(b.until) })
		for _, d := range due {
			testenv.Pass(time.Until(d.until))
			if got := s.ask("/", "x-user: "+d.user).status; got != 200 {
				t.Errorf("%s: status %d after %d seconds, as retry-after said; want 200", d.user, got, d.seconds)
			}
		}
	}
}

// denial is what a denied user was told.
type denial struct {
	user    string
	seconds int       // of Retry-After
	until   time.Time // when they have passed
}

// askUntilDenied asks for a user whose limit is a matter of seconds.
func (e *envoy) askUntilDenied(user string) denial {
	e.t.Helper()
	d := denial{user: user}
	testenv.Eventually(e.t, func() (err error) {
		a := e.ask("/", "x-user: "+user)
		if a.status != 429 {
			return errors.New("admitted")
		}
		d.seconds, err = strconv.Atoi(a.header.Get("retry-after"))
		return err
	})
	if d.seconds < 1 || d.seconds > 2 {
		e.t.Errorf("%s: retry-after is %d seconds, want 1 or 2", user, d.seconds)
	}
	d.until = time.Now().Add(time.Duration(d.seconds) * time.Second)
	return d
}
