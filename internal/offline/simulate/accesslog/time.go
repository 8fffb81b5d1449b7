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

// layouts of times, the usual one first. All may have a fraction of a second. A time without zone is UTC.
var layoutsOfTime = []string{
	time.RFC3339,
	"02/Jan/2006:15:04:05 -0700", // common log format
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 -0700",
	"2006-01-02T15:04:05-0700",
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
	time.RFC1123,
	time.RFC1123Z,
}

// parseTime returns a time in microseconds since the epoch. Times before the epoch and after the year
// 9999 are none.
func parseTime(s string) (micros int64, ok bool) {
	if s == "" || len(s) > 64 {
		return 0, false
	}
	if s[0] >= '0' && s[0] <= '9' && strings.Trim(s, "0123456789.eE+") == "" {
		return sinceEpoch(s)
	}
	for _, layout := range layoutsOfTime {
		if t, err := time.Parse(layout, s); err == nil {
			return checked(t)
		}
	}
	return 0, false
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

// parseDuration returns a number of seconds or milliseconds in microseconds, -1 if it is none.
func parseDuration(s string, seconds bool) int64 {
	unit := milli
	if seconds {
		unit = second
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && n >= 0 && n < 1e9 {
		return int64(math.Round(n * float64(unit)))
	}
	return -1
}
