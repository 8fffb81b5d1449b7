package limiter

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Unit is the unit of a limit's period. The zero value is no unit.
type Unit uint8

// The units, from the shortest. A month counts 30 days and a year 365, but ByCalendar.
const (
	Second Unit = iota + 1
	Minute
	Hour
	Day
	Week
	Month
	Year
)

const day = 24 * time.Hour

var (
	unitNames = [...]string{"unknown", "second", "minute", "hour", "day", "week", "month", "year"}
	durations = [...]time.Duration{0, time.Second, time.Minute, time.Hour, day, 7 * day, 30 * day, 365 * day}
)

// UnitNames lists the names that ParseUnit accepts, shortest period first.
func UnitNames() []string { return slices.Clone(unitNames[Second:]) }

// ParseUnit finds a unit by its name, in any case.
func ParseUnit(name string) (Unit, bool) {
	i := slices.IndexFunc(unitNames[Second:], func(unit string) bool { return strings.EqualFold(unit, name) })
	return Second + Unit(i), i >= 0 // Unit(-1) is 255, and with Second 0: no unit
}

// Duration returns the length of the unit, 0 for no unit.
func (u Unit) Duration() time.Duration { return durations[u] }

// String returns the unit's name in lower case.
func (u Unit) String() string { return unitNames[u] }

// Mode says what a limit's denial means for the request.
type Mode uint8

// The modes.
const (
	Enforced Mode = iota // denies the request
	Shadow               // counts and measures but never denies
	Quota                // denies the request only when every quota limit of it is over
)

// Charge says what becomes of the cost of a hit that is denied.
type Charge uint8

const (
	// ByDefault leaves it to the server's setting, which is Auto unless it says otherwise.
	ByDefault Charge = iota
	// Auto is Always for a hit whose descriptor carries its own cost, such as
	// tokens or bytes, and Admitted for others.
	Auto
	// Admitted writes a hit only if its request is admitted.
	Admitted
	// Always writes a hit although it does not fit or its request is denied.
	Always
)

// FailureMode says what becomes of the hits on a limit while the store fails.
// Package failover says what follows for a request with limits of several modes.
type FailureMode uint8

// The failure modes.
const (
	FailureByDefault FailureMode = iota // leaves it to the server's setting
	FailureError                        // leaves the request undecided
	FailureAllow                        // admits them, uncounted
	FailureDeny                         // takes the limit to be over
	FailureLocal                        // counts them in the memory of this process
)

var failureModes = [...]string{FailureByDefault: "default", FailureError: "error", FailureAllow: "allow", FailureDeny: "deny", FailureLocal: "local"}

// FailureModeNames lists the names of the modes, from FailureError on.
func FailureModeNames() []string { return failureModes[FailureError:] }

// String returns the mode's name.
func (m FailureMode) String() string { return failureModes[m] }

// MaxPeriod is the longest period of a limit, and the longest time in which an
// empty bucket refills. Up to it the end of any window, in microseconds since
// the epoch, stays below MaxExact.
const MaxPeriod = 100 * 365 * day

// MinBan is the shortest ban; the longest lasts MaxPeriod.
const MinBan = time.Millisecond

// MaxAmount is the largest amount of a limit, and the largest burst. A use and a cost,
// each of which may be four times as much, still add up to MaxExact.
const MaxAmount = 1 << 50

// Spec says what a limit is: an amount per period, how it is counted, and what
// happens when it is used up.
type Spec struct {
	Name            string      // as configured, may be empty
	RequestsPerUnit uint64      // amount per period, at most MaxAmount, 0 denies all
	Unit            Unit        // with UnitMultiplier, the period
	UnitMultiplier  uint32      // periods of so many units; 0 means 1
	Unlimited       bool        // admits everything and never reaches a store
	Algorithm       Algorithm   // how the amount is counted
	Nth             uint32      // 2 of the second limit of its rule that counts alike, and so on; 0 of the first
	TimeZone        string      // of ByCalendar; empty means UTC
	Burst           uint64      // size of a token bucket, at most MaxAmount; 0 means RequestsPerUnit
	Hold            string      // key of the entry that names a hold of Concurrency; "" means DefaultHold
	Charge          Charge      // whether denied hits are written
	Mode            Mode        // what a denial means
	Veto            bool        // of an exception or an invalid value: an amount of 0 that no quota and no failure mode outweighs
	FailureMode     FailureMode // what becomes of hits while the store fails
	Replaces        []string    // names of limits that do not count beside this one, sorted
	Series          Series      // of the metrics; limits of equal labels share them

	// DenyFor is how long a ban denies a counter, whatever the algorithm says; 0: there are no
	// bans. One begins when a hit of an enforced limit is over, and so its request is denied:
	// also if another limit denies it, too, if the hit is charged always, and if it is a peek
	// of a request: who asks first and is charged later is banned like others. A limit in
	// shadow mode or a quota begins none, nor does CounterStore.Peek. A ban in force is not
	// extended. While it is, every hit but refunds is over, and what is written whatever
	// becomes of its request still is. No ban applies to a limit without bans, such as one of
	// an exception; what it writes leaves the ban in force for other limits on the counter.
	DenyFor time.Duration
}

// Period returns the length of the limit's window, of a calendar about that, or the time
// in which a bucket refills by the amount.
func (s *Spec) Period() time.Duration {
	return s.Unit.Duration() * time.Duration(max(s.UnitMultiplier, 1))
}

// Per returns the period in words, such as "minute" or "5 minutes".
func (s *Spec) Per() string {
	if s.UnitMultiplier > 1 {
		return fmt.Sprintf("%d %ss", s.UnitMultiplier, s.Unit)
	}
	return s.Unit.String()
}

// Rate returns the amount per period in words, such as "10 per 5 minutes".
func (s *Spec) Rate() string {
	if s.Algorithm == Concurrency {
		return fmt.Sprintf("%d in flight, each for up to %v", s.RequestsPerUnit, s.Period())
	}
	return fmt.Sprintf("%d per %s", s.RequestsPerUnit, s.Per())
}

// Size returns how much fits at once: the amount, or the burst of a bucket that has one.
func (s *Spec) Size() uint64 {
	if s.Burst > 0 && s.RequestsPerUnit > 0 {
		return s.Burst
	}
	return s.RequestsPerUnit
}

// DefaultHold is the key of the entry that names a hold, as Envoy's action
// request_headers makes it of x-request-id.
const DefaultHold = "request_id"

// HoldKey returns the key of the entry that names a hold, "" if the limit has no holds.
func (s *Spec) HoldKey() string {
	if s.Unlimited || s.Algorithm != Concurrency {
		return ""
	}
	return cmp.Or(s.Hold, DefaultHold)
}

// Limit is a Spec that can be counted. It is immutable once it is used, and before that
// but for Nth, Mode and Series; a new configuration makes new limits.
type Limit struct {
	Spec
	counting counting // nil if it is unlimited
	most     int64    // of counting.numbers
}

// NewLimit returns an error if s cannot be counted: for a missing unit, a period or a
// refill above MaxPeriod, or numbers that would not be exact. Fields that the algorithm does
// not take, see Option, must be empty; who reads rules says so, with the place.
func NewLimit(s Spec) (*Limit, error) {
	switch {
	case s.Unlimited:
		return &Limit{Spec: s}, nil
	case s.Unit < Second || s.Unit > Year:
		return nil, fmt.Errorf("unknown unit; use one of %s", strings.Join(UnitNames(), ", "))
	case int64(max(s.UnitMultiplier, 1)) > int64(MaxPeriod/s.Unit.Duration()):
		return nil, fmt.Errorf("a period of %s is too long, at most 100 years are allowed", s.Per())
	case max(s.RequestsPerUnit, s.Burst) > MaxAmount:
		return nil, fmt.Errorf("an amount of %d is too large, at most %d is allowed", max(s.RequestsPerUnit, s.Burst), uint64(MaxAmount))
	}
	c, err := algorithms[s.Algorithm].new(&s)
	if err != nil {
		return nil, err
	}
	most, _ := c.numbers()
	return &Limit{s, c, most}, nil
}

// MustLimit is NewLimit of a Spec that is known to be right: it panics on an error.
func MustLimit(s Spec) *Limit {
	l, err := NewLimit(s)
	if err != nil {
		panic(err)
	}
	return l
}

// Times returns a limit of factor times the amount of l and of its burst, which counts on
// the same counters: so what is used counts. It has no bans, and bans in force do not apply
// to it. Amounts are rounded, and at least 1; one of 0 stays 0. Where the algorithm cannot
// count so much, the factor is its root.
func (l *Limit) Times(factor float64) *Limit {
	if l.Unlimited {
		return l
	}
	for range 64 { // roots of any factor come to 1
		s := l.Spec
		s.RequestsPerUnit, s.Burst, s.DenyFor = scale(s.RequestsPerUnit, factor), scale(s.Burst, factor), 0
		if times, err := NewLimit(s); err == nil {
			return times
		}
		if factor = math.Sqrt(factor); factor >= 2 {
			factor = math.Floor(factor) // a bucket can count more if the amount has more in common with the period
		}
	}
	return l
}

func scale(amount uint64, factor float64) uint64 {
	if amount == 0 {
		return 0
	}
	return uint64(min(max(math.Round(float64(amount)*factor), 1), MaxAmount))
}
