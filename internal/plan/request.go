package plan

import (
	"errors"
	"fmt"
	"slices"

	"weir/internal/limiter"
)

// Request asks for a decision, like Envoy's RateLimitRequest.
type Request struct {
	Domain      string
	HitsAddend  uint32 // units that each descriptor asks for by default; 0 means 1
	Descriptors []Descriptor
}

// Reset empties r. It removes all references to the request's bytes, but keeps the memory of
// the slice.
func (r *Request) Reset() {
	clear(r.Descriptors)
	r.Domain, r.HitsAddend, r.Descriptors = "", 0, r.Descriptors[:0]
}

// Descriptor is one descriptor of a request.
type Descriptor struct {
	Entries       []limiter.Entry // their texts may contain any bytes
	Override      Override        // replaces the limits of the rule if HasOverride
	HasOverride   bool
	HitsAddend    uint64 // replaces Request.HitsAddend if HasHitsAddend; 0 is a peek
	HasHitsAddend bool
	Refund        bool // refunds the units instead of taking them
}

// Override is a limit that a request sends for one descriptor. It is a fixed window unless the
// rule says how to count overrides, see descriptors.Override.
type Override struct {
	RequestsPerUnit uint32
	Unit            limiter.Unit // 0 if undefined; a week, which Envoy does not know, is invalid
	UnitMultiplier  uint32       // 0 means 1
}

// MaxEntries is the maximum number of entries in a descriptor. Options has the maximum number of
// descriptors in a request.
const MaxEntries = 100

// TooLargeError means that a request exceeds a maximum size. Clients choose the values, and so
// the size. The request must be denied, because Envoy would let it pass after an error.
type TooLargeError string

func (e TooLargeError) Error() string { return string(e) }

// ErrManyEntries means that a descriptor has more than MaxEntries entries.
var ErrManyEntries error = TooLargeError(fmt.Sprintf("more than the %d entries allowed", MaxEntries))

// ManyDescriptorsError returns the error for a request with more descriptors than the given maximum.
func ManyDescriptorsError(most int) error {
	return TooLargeError(fmt.Sprintf("the request has more than the %d descriptors allowed", most))
}

// Cost returns the number of units that d asks for or refunds.
func (r *Request) Cost(d *Descriptor) uint64 {
	if d.HasHitsAddend {
		return d.HitsAddend
	}
	return uint64(max(r.HitsAddend, 1))
}

// check returns an error if r is invalid. It does not check overrides.
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

// chargedAlways reports whether the cost of d is charged even if it does not fit. charge must
// not be ByDefault.
func (d *Descriptor) chargedAlways(charge limiter.Charge) bool {
	if charge == limiter.Auto {
		// A descriptor with its own HitsAddend reports units that are already used, such as the
		// tokens in an answer of a language model.
		return d.HasHitsAddend && d.HitsAddend > 0
	}
	return charge == limiter.Always
}
