package rlqs

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/limiter"
)

// report is a RateLimitQuotaUsageReports. It is parsed without generated code, because Envoy puts
// the raw bytes of headers into bucket IDs: generated code would refuse a value that is not UTF-8,
// and the stream would fail for all other buckets.
type report struct {
	domain string
	usages []usage
}

// usage is the use of one bucket since the last report.
type usage struct {
	id              []byte          // the BucketId as Envoy sent it
	entries         []limiter.Entry // sorted by key
	allowed, denied uint64
}

// Decode parses a message from gRPC into an empty report.
func (r *report) Decode(data mem.BufferSlice) error {
	return fields(data.Materialize(), func(number protowire.Number, bytes []byte, _ uint64) error {
		switch number {
		case 1:
			r.domain = string(bytes)
		case 2:
			var u usage
			err := fields(bytes, u.set)
			slices.SortFunc(u.entries, func(a, b limiter.Entry) int { return cmp.Compare(a.Key, b.Key) })
			r.usages = append(r.usages, u)
			return err
		}
		return nil
	})
}

// set sets a field of a BucketQuotaUsage.
func (u *usage) set(number protowire.Number, bytes []byte, n uint64) error {
	switch number {
	case 1:
		u.id, u.entries = bytes, nil
		return fields(bytes, func(_ protowire.Number, bytes []byte, _ uint64) error {
			var pair [3]string
			err := fields(bytes, func(number protowire.Number, bytes []byte, _ uint64) error {
				pair[min(number, 3)-1] = string(bytes)
				return nil
			})
			u.entries = append(u.entries, limiter.Entry{Key: pair[0], Value: pair[1]})
			return err
		})
	case 3:
		u.allowed = n
	case 4:
		u.denied = n
	}
	return nil
}

// fields calls field for each field of a message, with the value in bytes or n, and returns the first error.
func fields(wire []byte, field func(number protowire.Number, bytes []byte, n uint64) error) error {
	for len(wire) > 0 {
		number, kind, size := protowire.ConsumeTag(wire)
		if size < 0 {
			return protowire.ParseError(size)
		}
		wire = wire[size:]
		var bytes []byte
		var n uint64
		switch kind {
		case protowire.BytesType:
			bytes, size = protowire.ConsumeBytes(wire)
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(wire)
		default:
			size = protowire.ConsumeFieldValue(number, kind, wire)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		if err := field(number, bytes, n); err != nil {
			return err
		}
		wire = wire[size:]
	}
	return nil
}

// answer is a RateLimitQuotaResponse.
type answer []byte

// Encode returns the message for gRPC.
func (a *answer) Encode() mem.BufferSlice { return mem.BufferSlice{mem.SliceBuffer(*a)} }

// Rules of a blanket strategy.
const (
	allowAll = 0
	denyAll  = 1
)

// action appends an action for the bucket id. number is the field number of the action.
func (a *answer) action(id []byte, number protowire.Number, fields []byte) {
	*a = appendMessage(*a, 1, appendMessage(appendMessage(nil, 1, id), number, fields))
}

// abandon tells Envoy to forget a bucket. The next request for the bucket creates it again.
func (a *answer) abandon(id []byte) { a.action(id, 3, nil) }

// blanket admits or denies all requests of a bucket, as rule says, for the duration lasts.
func (a *answer) blanket(id []byte, rule uint64, lasts time.Duration) {
	a.assign(id, appendUint(nil, 1, rule), lasts)
}

// share assigns a token bucket of size tokens for the duration lasts. It gets fill tokens per period of seconds.
func (a *answer) share(id []byte, size, fill, seconds uint64, lasts time.Duration) {
	bucket := appendMessage(appendUint(nil, 1, size), 2, appendUint(nil, 1, fill))
	bucket = appendMessage(bucket, 3, appendUint(nil, 1, seconds))
	a.assign(id, appendMessage(nil, 3, bucket), lasts)
}

func (a *answer) assign(id, strategy []byte, lasts time.Duration) {
	life := appendUint(appendUint(nil, 1, uint64(lasts/time.Second)), 2, uint64(lasts%time.Second))
	a.action(id, 2, appendMessage(appendMessage(nil, 2, life), 3, strategy))
}

func appendMessage(to []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), message)
}

func appendUint(to []byte, number protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), n)
}
