package limiter

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Unit is the unit of a limit's period. The zero value is not a unit.
type Unit uint8

// The units, shortest first. A month has 30 days and a year 365, except with ByCalendar.
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

// ParseUnit returns the unit with the given name, ignoring case, and whether it exists.
func ParseUnit(name string) (Unit, bool) {
	i := slices.IndexFunc(unitNames[Second:], func(unit string) bool { return strings.EqualFold(unit, name) })
	return Second + Unit(i), i >= 0 // if i is -1, the sum overflows to 0
}

// Duration returns the length of the unit, or 0 for the zero value.
func (u Unit) Duration() time.Duration { return durations[u] }

// String returns the unit's name in lower case.
func (u Unit) String() string { return unitNames[u] }

// Mode says how an exceeded limit affects the request.
type Mode uint8

// The modes.
const (
	Enforced Mode = iota // denies the request
	Shadow               // is counted and shown in metrics but denies nothing
	Quota                // denies the request only if every quota group of the request has an exceeded limit, see Hit.Group
)

// Charge determines whether the cost of a denied hit is written.
type Charge uint8

const (
	// ByDefault leaves the choice to the server's setting, whose default is Auto.
	ByDefault Charge = iota
	// Auto is Always for a hit whose descriptor has its own cost, such as tokens or bytes, and
	// Admitted for other hits.
	Auto
	// Admitted writes a hit only if its request is admitted.
	Admitted
	// Always writes a hit even if it does not fit or its request is denied.
	Always
)

// FailureMode determines how a limit's hits are decided while the store fails. See package
// failover for requests with limits of several modes.
type FailureMode uint8

// The failure modes.
const (
	FailureByDefault FailureMode = iota // leaves the choice to the server's setting
	FailureError                        // leaves the request undecided
	FailureAllow                        // admits the hits without counting them
	FailureDeny                         // treats the limit as exceeded
	FailureLocal                        // counts the hits in the memory of this process
)

var failureModes = [...]string{"default", "error", "allow", "deny", "local"}

// FailureModeNames lists the names of all failure modes except FailureByDefault.
func FailureModeNames() []string { return failureModes[FailureError:] }

// String returns the mode's name.
func (m FailureMode) String() string { return failureModes[m] }

// MaxPeriod is the longest period of a limit, and the longest time that a full bucket may take to
// drain. MaxPeriod keeps the end of any window, in microseconds since the epoch, below MaxExact.
const MaxPeriod = 100 * 365 * day

// MinBan is the shortest ban; the longest lasts MaxPeriod.
const MinBan = time.Millisecond

// MaxAmount is the largest amount of a limit, and the largest burst. The sum of a use and a cost,
// each up to four times MaxAmount, is still at most MaxExact.
const MaxAmount = 1 << 50

// Spec defines a limit: an amount per period, the way to count, and the effect of exceeding it.
type Spec struct {
	Name            string      // as configured, may be empty
	RequestsPerUnit uint64      // amount per period, at most MaxAmount; 0 denies all
	Unit            Unit        // with UnitMultiplier, the period
	UnitMultiplier  uint32      // number of units in the period; 0 means 1
	Unlimited       bool        // admits everything and never reaches a store
	Algorithm       Algorithm   // how the amount is counted
	Nth             uint32      // number among the rule's limits that would share a key: 0 for the first, 2 for the second, 3 for the third
	TimeZone        string      // for ByCalendar; empty means UTC
	Burst           uint64      // size of a token bucket, at most MaxAmount; 0 means RequestsPerUnit
	Hold            string      // key of the entry that names a hold, for Concurrency; "" means DefaultHold
	Settle          string      // key of the entry that settles a reservation; "" means that requests reserve nothing
	Charge          Charge      // whether denied hits are written
	Mode            Mode        // effect of an exceeded limit on the request
	ShadowQuota     bool        // the limit would be in quota mode if it were not in shadow mode
	Veto            bool        // the limit denies because of an exception or an invalid value, even in quota mode and while the store fails
	FailureMode     FailureMode // how hits are decided while the store fails
	Notify          []int       // percentages of the amount at which operators are notified, ascending
	Replaces        []string    // names of the limits that this limit replaces, sorted
	Series          Series      // labels in metrics; limits with equal labels share their metrics

	// DenyFor is the length of a ban, during which every hit on the counter except refunds is over.
	// 0 disables bans. A ban begins when a hit of an enforced limit is over and so denies its
	// request, even if another limit also denies the request or the hit is always charged. A peek
	// in a request can also begin a ban, so clients whose requests peek first and are charged later
	// are banned like other clients. A limit in shadow or quota mode begins no ban, nor does
	// CounterStore.Peek. A ban in force is not extended, and does not stop hits that are written
	// even if their request is denied. Limits without bans, such as the limit of an exception,
	// ignore a ban in force and leave it for other limits on the counter.
	DenyFor time.Duration
}

// Period returns the length of the limit's window, which is approximate for a calendar. For a
// bucket, it returns the time in which the amount drains.
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

// Size returns the number of units that an unused counter admits: the burst if set, else the amount.
func (s *Spec) Size() uint64 {
	if s.Burst > 0 && s.RequestsPerUnit > 0 {
		return s.Burst
	}
	return s.RequestsPerUnit
}

// DefaultHold is the default key of the entry that names a hold. Envoy's action request_headers
// makes such an entry from x-request-id.
const DefaultHold = "request_id"

// HoldKey returns the key of the entry that names a hold, or "" if the limit has no holds.
func (s *Spec) HoldKey() string {
	if s.Unlimited || s.Algorithm != Concurrency {
		return ""
	}
	return cmp.Or(s.Hold, DefaultHold)
}

// Limit is a Spec that can be counted. Nth, Mode and Series may be changed until the limit is first
// used; after that, the limit is immutable. A new configuration makes new limits.
type Limit struct {
	Spec
	counting counting // nil if the limit is unlimited
	maxCost  int64    // the first result of counting.numbers
	record   *Limit   // for a token bucket with Settle (see Record); otherwise nil
}

// NewLimit returns the limit that s defines. It fails if s cannot be counted: if the unit is
// missing, the period or refill exceeds MaxPeriod, or a number is too large. It does not check for
// options that the algorithm does not take; the code that reads rules reports those, with their
// location.
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
	maxCost, _ := c.numbers()
	l := &Limit{Spec: s, counting: c, maxCost: maxCost}
	if s.Settle != "" && s.Algorithm == TokenBucket {
		l.record = MustLimit(Spec{RequestsPerUnit: MaxAmount, Unit: max(s.Unit, Hour), Algorithm: FirstHit})
	}
	return l, nil
}

// MustLimit is NewLimit for a valid Spec. It panics on an error.
func MustLimit(s Spec) *Limit {
	l, err := NewLimit(s)
	if err != nil {
		panic(err)
	}
	return l
}

// NewDenial returns a limit that denies everything, even in quota mode and while the store fails, and is
// never charged. Its metrics are labeled with the given domain, and with parameter by as the rule.
func NewDenial(domain, by string) *Limit {
	return MustLimit(Spec{
		Name: "deny", Unit: Day, Veto: true, Charge: Admitted, FailureMode: FailureDeny,
		Series: LabelSet{Domain: domain, Key1: by, Rule: by, Limit: "deny"}.Series(),
	})
}

// Times returns a limit with factor times the amount and burst of l. It uses the counters of l, so
// units that are already used still count. It has no bans, and bans in force do not apply to it.
// Amounts are rounded to at least 1; an amount of 0 stays 0. If the algorithm cannot count such
// amounts, Times tries the square root of factor, then the square root of that root, and so on.
func (l *Limit) Times(factor float64) *Limit {
	if l.Unlimited {
		return l
	}
	for range 64 { // repeated square roots of any factor reach 1
		s := l.Spec
		s.RequestsPerUnit, s.Burst, s.DenyFor = scale(s.RequestsPerUnit, factor), scale(s.Burst, factor), 0
		if times, err := NewLimit(s); err == nil {
			return times
		}
		if factor = math.Sqrt(factor); factor >= 2 {
			factor = math.Floor(factor) // a bucket counts larger amounts exactly if amount and period have a larger common divisor
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
