package rls

import (
	"errors"
	"fmt"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/limiter"
)

// request is a RateLimitRequest.
type request struct {
	domain      string
	hitsAddend  uint32
	descriptors []descriptor
	entries     []limiter.Entry // of all descriptors, one after the other
}

// descriptor is a RateLimitDescriptor.
type descriptor struct {
	entries       []limiter.Entry
	limit         override
	hasLimit      bool
	hitsAddend    uint64
	hasHitsAddend bool // an addend of 0 differs from none
	negativeHits  bool
}

// override is the limit that a request brings along for one descriptor.
type override struct {
	requestsPerUnit uint32
	unit            int32 // as sent, may be undefined
	unitMultiplier  uint32
}

// A request holds at most so much. The most descriptors are a setting. A message
// that is a little too large is told so with INVALID_ARGUMENT. Beyond maxReceived
// gRPC itself refuses it, unread and with RESOURCE_EXHAUSTED: what cannot be
// permitted must take neither memory, which a compressed message needs before anybody
// sees it, nor a share of the bytes that unfinished requests have together.
const (
	maxBytes    = 1 << 20
	maxReceived = maxBytes + 64<<10
	maxEntries  = 100 // of one descriptor
)

var errMalformed = errors.New("the message is malformed")

// decode reads a RateLimitRequest into r, whose slices are used again. The
// strings of r are parts of wire, which must not change any more. As protobuf
// demands, the last of several values of a field counts, messages are merged,
// and unknown fields are skipped, as are known ones of another wire type.
// Strings may hold any bytes.
func (r *request) decode(wire []byte, maxDescriptors int) error {
	*r = request{descriptors: r.descriptors[:0], entries: r.entries[:0]}
	if len(wire) > maxBytes {
		return fmt.Errorf("the message has %d bytes, at most %d are permitted", len(wire), maxBytes)
	}
	f := fields{rest: wire}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			r.domain = text(f.bytes)
		case f.is(2, protowire.BytesType):
			if len(r.descriptors) == maxDescriptors {
				return fmt.Errorf("the request has more than the %d descriptors that are permitted", maxDescriptors)
			}
			if err := r.decodeDescriptor(f.bytes); err != nil {
				return fmt.Errorf("descriptor %d: %w", len(r.descriptors), err)
			}
		case f.is(3, protowire.VarintType):
			r.hitsAddend = uint32(f.varint)
		}
	}
	return f.err
}

func (r *request) decodeDescriptor(wire []byte) error {
	var d descriptor
	start := len(r.entries)
	f := fields{rest: wire}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			if len(r.entries)-start == maxEntries {
				return fmt.Errorf("it has more than the %d entries that are permitted", maxEntries)
			}
			e, err := decodeEntry(f.bytes)
			if err != nil {
				return fmt.Errorf("entry %d: %w", len(r.entries)-start, err)
			}
			r.entries = append(r.entries, e)
		case f.is(2, protowire.BytesType):
			d.hasLimit = true
			if err := d.limit.merge(f.bytes); err != nil {
				return fmt.Errorf("limit: %w", err)
			}
		case f.is(3, protowire.BytesType):
			d.hasHitsAddend = true
			if err := mergeWrapper(f.bytes, &d.hitsAddend); err != nil {
				return fmt.Errorf("hits_addend: %w", err)
			}
		case f.is(4, protowire.VarintType):
			d.negativeHits = protowire.DecodeBool(f.varint)
		}
	}
	d.entries = r.entries[start:len(r.entries):len(r.entries)]
	if f.err == nil {
		r.descriptors = append(r.descriptors, d)
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

// merge reads a RateLimitOverride into o.
func (o *override) merge(wire []byte) error {
	f := fields{rest: wire}
	for f.next() {
		switch {
		case f.is(1, protowire.VarintType):
			o.requestsPerUnit = uint32(f.varint)
		case f.is(2, protowire.VarintType):
			o.unit = int32(f.varint)
		case f.is(3, protowire.BytesType):
			multiplier := uint64(o.unitMultiplier)
			if err := mergeWrapper(f.bytes, &multiplier); err != nil {
				return err
			}
			o.unitMultiplier = uint32(multiplier)
		}
	}
	return f.err
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
