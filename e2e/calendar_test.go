package e2e

import (
	"strconv"
	"testing"
	"time"
)

// A month that is used up ends with the calendar's, in the time zone of the limit, as
// Envoy says to the client.
func TestCalendarMonthOfAZone(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: month, requests_per_unit: 2, anchor: calendar, time_zone: Asia/Tokyo}
`
	inEachStore(t, rules, func(t *testing.T, s *stack) {
		s.want("/", "x-user: alice", 200, 200)
		untilNextMonth := func() float64 {
			tokyo := time.FixedZone("Asia/Tokyo", 9*60*60)
			year, month, _ := time.Now().In(tokyo).Date()
			return time.Until(time.Date(year, month+1, 1, 0, 0, 0, 0, tokyo)).Seconds()
		}
		most := untilNextMonth()
		a := s.ask("/", "x-user: alice")
		least := untilNextMonth()
		seconds, err := strconv.ParseFloat(a.header.Get("retry-after"), 64)
		if a.status != 429 || err != nil || seconds < least-1 || seconds > most+1 {
			t.Errorf("status %d, retry-after %q; want 429, %.f to %.f", a.status, a.header.Get("retry-after"), least, most)
		}
	})
}
