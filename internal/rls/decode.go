package rls

import (
	"errors"
	"fmt"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// maxBytes is the size of the largest request that is decided. A larger one is denied.
// Beyond maxReceived gRPC itself refuses it, unread and with RESOURCE_EXHAUSTED, after which
// Envoy lets the request pass: it has room for a header of 60 KiB, Envoy's default, in 68
// descriptors.
const (
	maxBytes    = 1 << 20
	maxReceived = 4 << 20
)

var errMalformed = errors.New("the message is malformed")

// decode reads the RateLimitRequest in c.wire into c.request, which is empty. The
// strings are parts of c.wire, which must not change any more. As protobuf
// demands, the last of several values of a field counts, messages are merged,
// and unknown fields are skipped, as are known ones of another wire type.
// Strings may hold any bytes.
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

// mergeOverride reads a RateLimitOverride into o.
func mergeOverride(wire []byte, o *plan.Override) error {
	f := fields{rest: wire}
	for f.next() {
		switch {
		case f.is(1, protowire.VarintType):
			o.RequestsPerUnit = uint32(f.varint)
		case f.is(2, protowire.VarintType):
			o.Unit = 0 // none
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

// wireUnits are the units by the numbers of RateLimitResponse.RateLimit.Unit. Those of
// envoy.type.v3.RateLimitUnit, which overrides have, are the same but lack the week.
var wireUnits = [...]limiter.Unit{
	1: limiter.Second, limiter.Minute, limiter.Hour, limiter.Day, limiter.Month, limiter.Year, limiter.Week,
}

// mergeWrapper reads a UInt32Value or UInt64Value into v.
func mergeWrapper(wire []byte, v *uint64) error {
	f := fields{rest: wire}
	for f.next() {
		if f.is(1, protowire.VarintType) {
			*v = f.varint
		}
	}
	return f.err
}

// fields walks over the fields of a message.
type fields struct {
	rest []byte
	err  error

	// The current field, with the value that its type says.
	num    protowire.Number
	typ    protowire.Type
	varint uint64
	bytes  []byte
}

// next goes to the next field. It returns false at the end of the message and,
// with err set, where the message is malformed.
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

// text makes a string of b without copying it. b must not change any more.
func text(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
