package plan

import (
	"errors"
	"fmt"
	"slices"

	"weir/internal/limiter"
)

// Request asks whether something may be done, as a RateLimitRequest of Envoy does.
type Request struct {
	Domain      string
	HitsAddend  uint32 // units that each descriptor asks for, 0 means 1
	Descriptors []Descriptor
}

// Reset empties r. It removes all references to the request's bytes, but keeps the memory of
// the slice.
func (r *Request) Reset() {
	clear(r.Descriptors)
	r.Domain, r.HitsAddend, r.Descriptors = "", 0, r.Descriptors[:0]
}

// Descriptor is what one limit, or those of one rule, are asked for.
type Descriptor struct {
	Entries       []limiter.Entry // may hold any bytes
	Override      Override        // instead of the rules, if HasOverride
	HasOverride   bool
	HitsAddend    uint64 // instead of the request's, if HasHitsAddend; 0 is a peek
	HasHitsAddend bool
	Refund        bool // gives the units back
}

// Override is the limit that a request brings along for one descriptor: a fixed window.
type Override struct {
	RequestsPerUnit uint32
	Unit            limiter.Unit // not a week, which Envoy does not know; 0 is an undefined one
	UnitMultiplier  uint32       // 0 means 1
}

// MaxEntries is how many entries a descriptor may have. How many descriptors a
// request may have is in Options.
const MaxEntries = 100

// TooLargeError says which bound the size of a request exceeds. Clients choose values, and with
// them the size. So the request must be denied: after an error, Envoy would let it pass.
type TooLargeError string

func (e TooLargeError) Error() string { return string(e) }

// ErrManyEntries is about a descriptor.
var ErrManyEntries error = TooLargeError(fmt.Sprintf("more than the %d entries allowed", MaxEntries))

// ManyDescriptorsError is about a request that has more descriptors than most.
func ManyDescriptorsError(most int) error {
	return TooLargeError(fmt.Sprintf("the request has more than the %d descriptors allowed", most))
}

// Cost returns how many units d asks for, or gives back.
func (r *Request) Cost(d *Descriptor) uint64 {
	if d.HasHitsAddend {
		return d.HitsAddend
	}
	return uint64(max(r.HitsAddend, 1))
}

// check returns what is wrong with r, except for its overrides.
func (r *Request) check(maxDescriptors int) error {
	switch {
	case r.Domain == "":
		return errors.New("the domain is empty")
	case len(r.Descriptors) == 0:
		return errors.New("the request has no descriptors")
	case len(r.Descriptors) > maxDescriptors:
		return ManyDescriptorsError(maxDescriptors)
	}
	for i := range r.Descriptors {
		entries := r.Descriptors[i].Entries
		if len(entries) > MaxEntries {
			return fmt.Errorf("descriptor %d: %w", i, ErrManyEntries)
		}
		if j := slices.IndexFunc(entries, func(e limiter.Entry) bool { return e.Key == "" }); j >= 0 {
			return fmt.Errorf("descriptor %d: the key of entry %d is empty", i, j)
		}
	}
	return nil
}

// chargedAlways reports whether the cost of d is written although it does not fit.
func (d *Descriptor) chargedAlways(charge limiter.Charge) bool {
	if charge == limiter.Auto {
		// A descriptor that says how much it used tells of what has happened
		// already, such as the tokens of an answer.
		return d.HasHitsAddend && d.HitsAddend > 0
	}
	return charge == limiter.Always
}
