package accesslog

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Microseconds.
const (
	milli  = 1000
	second = 1000 * milli
)

// layoutsOfTime are those that are not read faster by hand. A time without zone is UTC.
var layoutsOfTime = []string{
	"02/Jan/2006:15:04:05 -0700", // common log format
	"02/Jan/2006:15:04:05.999999999 -0700",
	time.RFC3339,
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 -0700",
	"2006-01-02T15:04:05-0700",
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
	time.RFC1123,
	time.RFC1123Z,
}

// clock reads times. Those of most lines are of the same minute as one just before.
type clock struct {
	minute []byte // such as 2026-11-23T03:20, in UTC
	at     int64
}

// parse returns a time in microseconds since the epoch. Times before the epoch and after the year
// 9999 are none.
func (c *clock) parse(s string) (micros int64, ok bool) {
	switch {
	case s == "" || len(s) > 64:
		return 0, false
	case len(s) > 19 && s[10] == 'T' && s[len(s)-1] == 'Z':
		// 2026-11-23T03:20:05.123Z, as Envoy writes it
		if micros, ok := fraction(s[19 : len(s)-1]); ok {
			at, ok := c.second(s[:19])
			return at + micros, ok
		}
	case s[0] >= '0' && s[0] <= '9' && strings.Trim(s, "0123456789.eE+") == "":
		return sinceEpoch(s)
	}
	for _, layout := range layoutsOfTime {
		if t, err := time.Parse(layout, s); err == nil {
			return checked(t)
		}
	}
	return 0, false
}

// second reads a time such as 2026-11-23T03:20:05, in UTC.
func (c *clock) second(s string) (int64, bool) {
	const minute = len("2026-11-23T03:20")
	if s[:minute] != string(c.minute) {
		t, err := time.Parse("2006-01-02T15:04", s[:minute])
		if err != nil {
			return 0, false
		}
		at, ok := checked(t)
		if !ok {
			return 0, false
		}
		c.minute, c.at = append(c.minute[:0], s[:minute]...), at
	}
	tens, ones := s[minute+1]-'0', s[minute+2]-'0'
	return c.at + int64(tens*10+ones)*second, s[minute] == ':' && tens <= 5 && ones <= 9
}

// fraction returns the microseconds of such as .123, and of nothing.
func fraction(s string) (micros int64, ok bool) {
	if s == "" {
		return 0, true
	}
	if s[0] != '.' || len(s) == 1 || len(s) > 10 {
		return 0, false
	}
	unit := int64(second)
	for _, c := range []byte(s[1:]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		unit /= 10
		micros += int64(c-'0') * unit
	}
	return micros, true
}

// sinceEpoch reads a number of seconds since the epoch, or of milliseconds, microseconds or
// nanoseconds, as its size says.
func sinceEpoch(s string) (int64, bool) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, false
	}
	switch {
	case n < 1e11:
		n *= second
	case n < 1e14:
		n *= milli
	case n >= 1e17:
		n /= milli
	}
	return checked(time.UnixMicro(int64(math.Round(min(n, 1e18)))))
}

func checked(t time.Time) (int64, bool) {
	return t.UnixMicro(), t.Unix() >= 0 && t.UTC().Year() <= 9999
}

// parseDuration returns a number of units in microseconds, -1 if it is none.
func parseDuration(s string, unit int64) int64 {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil && n >= 0 {
		return n * unit
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && n >= 0 && n < 1e9 {
		return int64(math.Round(n * float64(unit)))
	}
	return -1
}
