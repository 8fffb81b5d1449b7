package accesslog

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// These are lengths of time in microseconds.
const (
	milli  = 1000
	second = 1000 * milli
)

// layoutsOfTime are the layouts of times, the most common first. Seconds may have a fraction. Times without a zone are UTC.
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

// parseTime returns a time in microseconds since the epoch. It fails if the layout of s is unknown, or for
// times before the epoch or after the year 9999.
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

// sinceEpoch parses a number of seconds, milliseconds, microseconds or nanoseconds since the
// epoch. The size of the number decides the unit.
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

// parseDuration returns a duration in microseconds, or -1 if s is not valid. s is in seconds if seconds is true,
// otherwise in milliseconds.
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
