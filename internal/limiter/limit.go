package limiter

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Unit is the unit of a limit's period. The zero value is no unit.
type Unit uint8

// The units, from the shortest. A month counts 30 days and a year 365.
const (
	Second Unit = iota + 1
	Minute
	Hour
	Day
	Week
	Month
	Year
)

var units = [...]struct {
	name     string
	duration time.Duration
}{
	{"unknown", 0},
	Second: {"second", time.Second},
	Minute: {"minute", time.Minute},
	Hour:   {"hour", time.Hour},
	Day:    {"day", 24 * time.Hour},
	Week:   {"week", 7 * 24 * time.Hour},
	Month:  {"month", 30 * 24 * time.Hour},
	Year:   {"year", 365 * 24 * time.Hour},
}

// UnitNames lists the names that ParseUnit accepts, shortest period first.
func UnitNames() []string {
	var names []string
	for _, u := range units[Second:] {
		names = append(names, u.name)
	}
	return names
}

// ParseUnit finds a unit by its name, in any case.
func ParseUnit(name string) (Unit, bool) {
	for u := Second; u <= Year; u++ {
		if strings.EqualFold(name, units[u].name) {
			return u, true
		}
	}
	return 0, false
}

// Duration is the length of the unit, 0 for no unit.
func (u Unit) Duration() time.Duration { return units[u].duration }

// String is the unit's name in lower case.
func (u Unit) String() string { return units[u].name }

// Mode says what a limit's denial means for the request.
type Mode uint8

const (
	// Enforced denies the request.
	Enforced Mode = iota
	// Shadow counts and measures but never denies.
	Shadow
	// Quota denies the request only when every quota limit of it is over.
	Quota
)

// MaxPeriod is the longest period of a limit. Up to it the end of any window,
// in microseconds since the epoch, stays below 2^53, the largest range in
// which Lua counts exactly.
const MaxPeriod = 100 * 365 * 24 * time.Hour

// Limit is an amount per period, and what to do when it is used up. It is
// immutable once it serves; a new configuration makes new limits.
type Limit struct {
	Name            string   // as configured, may be empty
	RequestsPerUnit uint32   // amount per period, 0 denies all
	Unit            Unit     // with UnitMultiplier, the period
	UnitMultiplier  uint32   // periods of so many units; 0 means 1
	Unlimited       bool     // admits everything and never reaches a store
	Mode            Mode     // what a denial means
	Replaces        []string // names of limits that do not count beside this one

	// Series names the limit's metrics. Limits of equal labels share them.
	Series Series

	counters atomic.Pointer[seriesCounters] // of Series, bound at first use
}

// Series holds the label values of a limit's metrics. They come from the
// configuration, never from a request, so that traffic cannot add series.
type Series struct {
	Domain string
	Key1   string // first level of the rule: key, or key_value
	Key2   string // second level, empty if there is none
}

// Period is the length of the limit's window.
func (l *Limit) Period() time.Duration {
	return l.Unit.Duration() * time.Duration(max(l.UnitMultiplier, 1))
}

// Check reports what makes the limit impossible to count: a missing unit or a
// period above MaxPeriod.
func (l *Limit) Check() error {
	switch {
	case l.Unlimited:
		return nil
	case l.Unit < Second || l.Unit > Year:
		return fmt.Errorf("undefined unit, allowed are %s", strings.Join(UnitNames(), ", "))
	case int64(max(l.UnitMultiplier, 1)) > int64(MaxPeriod/l.Unit.Duration()):
		return fmt.Errorf("a period of %d %ss is too long, at most 100 years are allowed", l.UnitMultiplier, l.Unit)
	}
	return nil
}
