package operators

import (
	"fmt"
	"time"

	"weir/internal/limiter"
)

// Times formats times relative to Now, in the time zone of Now.
type Times struct{ Now time.Time }

// Clock returns the time of day, preceded by the date unless t is today.
func (v Times) Clock(t time.Time) string {
	t = t.In(v.Now.Location())
	if y, m, d := v.Now.Date(); t.Year() == y && t.Month() == m && t.Day() == d {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// Ago returns a time in the past and its age.
func (v Times) Ago(t time.Time) string {
	return fmt.Sprintf("%s %s (%s ago)", v.Clock(t), v.Zone(), Span(v.Now.Sub(t)))
}

// Span returns the start and the end of a period or, if end is zero, the start and the time since then.
func (v Times) Span(start, end time.Time) string {
	if end.IsZero() {
		return v.Since(start)
	}
	return fmt.Sprintf("from %s to %s %s", v.Clock(start), v.Clock(end), v.Zone())
}

// Since returns a start and the time since then.
func (v Times) Since(t time.Time) string {
	return fmt.Sprintf("since %s %s (%s)", v.Clock(t), v.Zone(), Span(v.Now.Sub(t)))
}

// Until returns an expiry time and the time left.
func (v Times) Until(t time.Time) string {
	left := "expired"
	if t.After(v.Now) {
		left = Span(t.Sub(v.Now)) + " left"
	}
	return fmt.Sprintf("until %s %s (%s)", v.Clock(t), v.Zone(), left)
}

// Zone returns the name of the time zone.
func (v Times) Zone() string { return v.Now.Format("MST") }

// Span returns a rounded duration in at most two units, such as "2 h 5 min".
func Span(d time.Duration) string {
	d = max(d, 0)
	minutes := int(d.Round(time.Minute).Minutes())
	switch {
	case d > 0 && d < time.Second:
		return fmt.Sprintf("%d ms", max(d.Milliseconds(), 1))
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case minutes < 120:
		return fmt.Sprintf("%d min", minutes)
	case minutes < 48*60 && minutes%60 == 0:
		return fmt.Sprintf("%d h", minutes/60)
	case minutes < 48*60:
		return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
	default:
		return fmt.Sprintf("%d days", minutes/60/24)
	}
}

// seconds returns a wait in seconds for JSON, or nil if waiting does not help.
func seconds(wait time.Duration) *float64 {
	if wait == limiter.Never {
		return nil
	}
	return new(wait.Seconds())
}

// Seconds converts a number of seconds, as in JSON, to a Duration. It clamps s to the range from 0 to
// 2^33; NaN becomes 0.
func Seconds(s float64) time.Duration {
	const most = 1 << 33 // seconds, less than the longest Duration
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, most) * float64(time.Second))
}

// Counted returns n and a noun, in the plural unless n is 1, such as "1 rule" or "2 rules".
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
