package rls

import (
	"errors"
	"fmt"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// Requests of more than maxBytes bytes are denied. gRPC refuses a request of more than maxReceived
// bytes with RESOURCE_EXHAUSTED, and Envoy then lets the request pass. So maxReceived is large enough
// for a header of 60 KiB, Envoy's default maximum, in each of 68 descriptors.
const (
	maxBytes    = 1 << 20
	maxReceived = 4 << 20
)

var errMalformed = errors.New("the message is malformed")

// decode parses the RateLimitRequest in c.wire into c.request, which must be empty. The strings
// share the bytes of c.wire, which must not change afterwards. As protobuf requires, the last of
// several values of a field applies, messages are merged, and unknown fields are skipped, as are
// known fields of the wrong wire type. Strings may contain any bytes. decode fails if the message
// is malformed or, with a plan.TooLargeError, if the request is too large.
func (c *call) decode(maxDescriptors int) error {
	if c.size > maxBytes {
		return plan.TooLargeError(fmt.Sprintf("the message has %d bytes, at most %d are allowed", c.size, maxBytes))
	}
	r, f := &c.request, fields{rest: c.wire}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			r.Domain = text(f.bytes)
		case f.is(2, protowire.BytesType):
			if len(r.Descriptors) == maxDescriptors {
				return plan.ManyDescriptorsError(maxDescriptors)
			}
			if err := c.decodeDescriptor(f.bytes); err != nil {
				return fmt.Errorf("descriptor %d: %w", len(r.Descriptors), err)
			}
		case f.is(3, protowire.VarintType):
			r.HitsAddend = uint32(f.varint)
		}
	}
	return f.err
}

func (c *call) decodeDescriptor(wire []byte) error {
	var d plan.Descriptor
	start := len(c.entries)
	f := fields{rest: wire}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			if len(c.entries)-start == plan.MaxEntries {
				return plan.ErrManyEntries
			}
			e, err := decodeEntry(f.bytes)
			if err != nil {
				return fmt.Errorf("entry %d: %w", len(c.entries)-start, err)
			}
			c.entries = append(c.entries, e)
		case f.is(2, protowire.BytesType):
			d.HasOverride = true
			if err := mergeOverride(f.bytes, &d.Override); err != nil {
				return fmt.Errorf("limit: %w", err)
			}
		case f.is(3, protowire.BytesType):
			d.HasHitsAddend = true
			if err := mergeWrapper(f.bytes, &d.HitsAddend); err != nil {
				return fmt.Errorf("hits_addend: %w", err)
			}
		case f.is(4, protowire.VarintType):
			d.Refund = protowire.DecodeBool(f.varint)
		}
	}
	d.Entries = c.entries[start:len(c.entries):len(c.entries)]
	if f.err == nil {
		c.request.Descriptors = append(c.request.Descriptors, d)
	}
	return f.err
}

func decodeEntry(wire []byte) (e limiter.Entry, err error) {
	f := fields{rest: wire}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			e.Key = text(f.bytes)
		case f.is(2, protowire.BytesType):
			e.Value = text(f.bytes)
		}
	}
	return e, f.err
}

// mergeOverride parses a RateLimitOverride into o. Fields of o that are not in the message stay unchanged.
func mergeOverride(wire []byte, o *plan.Override) error {
	f := fields{rest: wire}
	for f.next() {
		switch {
		case f.is(1, protowire.VarintType):
			o.RequestsPerUnit = uint32(f.varint)
		case f.is(2, protowire.VarintType):
			o.Unit = 0 // undefined
			if unit := int32(f.varint); unit >= 0 && int(unit) < len(wireUnits)-1 {
				o.Unit = wireUnits[unit]
			}
		case f.is(3, protowire.BytesType):
			multiplier := uint64(o.UnitMultiplier)
			if err := mergeWrapper(f.bytes, &multiplier); err != nil {
				return err
			}
			o.UnitMultiplier = uint32(multiplier)
		}
	}
	return f.err
}

// wireUnits has the units by their numbers in RateLimitResponse.RateLimit.Unit. Overrides use
// envoy.type.v3.RateLimitUnit, which has the same numbers but no week.
var wireUnits = [...]limiter.Unit{
	1: limiter.Second, limiter.Minute, limiter.Hour, limiter.Day, limiter.Month, limiter.Year, limiter.Week,
}

// mergeWrapper parses a UInt32Value or UInt64Value into v. If the message has no value, *v stays unchanged.
func mergeWrapper(wire []byte, v *uint64) error {
	f := fields{rest: wire}
	for f.next() {
		if f.is(1, protowire.VarintType) {
			*v = f.varint
		}
	}
	return f.err
}

// fields iterates over the fields of a message.
type fields struct {
	rest []byte
	err  error

	// The current field. Its value is in varint or bytes, depending on typ.
	num    protowire.Number
	typ    protowire.Type
	varint uint64
	bytes  []byte
}

// next moves to the next field. It returns false at the end of the message. If the message is
// malformed, next sets err and returns false.
func (f *fields) next() bool {
	if len(f.rest) == 0 {
		return false
	}
	num, typ, n := protowire.ConsumeTag(f.rest)
	if n < 0 || num > protowire.MaxValidNumber {
		f.err = errMalformed
		return false
	}
	f.num, f.typ, f.rest = num, typ, f.rest[n:]
	switch typ {
	case protowire.VarintType:
		f.varint, n = protowire.ConsumeVarint(f.rest)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(f.rest)
	default:
		n = protowire.ConsumeFieldValue(num, typ, f.rest)
	}
	if n < 0 {
		f.err = errMalformed
		return false
	}
	f.rest = f.rest[n:]
	return true
}

func (f *fields) is(num protowire.Number, typ protowire.Type) bool {
	return f.num == num && f.typ == typ
}

// text returns b as a string without copying it. b must not change afterwards.
func text(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
