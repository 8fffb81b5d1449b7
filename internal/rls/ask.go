package rls

import (
	"context"
	"strings"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"weir/internal/limiter"
)

// Request is a RateLimitRequest for callers in this process.
type Request struct {
	Domain      string
	Descriptors []Descriptor
	HitsAddend  uint32 // units that each descriptor asks for, 0 means 1
}

// Descriptor is a RateLimitDescriptor.
type Descriptor struct {
	Entries      []limiter.Entry // may hold any bytes, as what Envoy sends
	Override     *Override       // nil: the rules'
	HitsAddend   *uint64         // nil: the request's; 0 is a peek
	NegativeHits bool            // gives units back
}

// Override is a RateLimitOverride.
type Override struct {
	RequestsPerUnit uint32
	Unit            limiter.Unit // Envoy knows no week
	UnitMultiplier  uint32       // 0 means 1
}

// Response is a RateLimitResponse.
type Response struct {
	OverLimit bool
	Statuses  []Status // one for each descriptor, in order
}

// Status is a DescriptorStatus.
type Status struct {
	OverLimit bool
	// Limit is the limit that decided, nil if none was counted.
	Limit *CurrentLimit
	// Remaining is what the limit still admits.
	Remaining uint32
	// UntilReset is, in whole seconds, when to try again if OverLimit, else when
	// the limit is whole again. It is 0 where the answer tells no time: no limit
	// was counted, or there is no use in trying again.
	UntilReset time.Duration
}

// CurrentLimit is a RateLimitResponse.RateLimit.
type CurrentLimit struct {
	Name            string // may be empty
	RequestsPerUnit uint32
	Unit            string // in lower case
	UnitMultiplier  uint32
}

// Ask decides a request as if Envoy had sent it: it is encoded, decoded and
// answered like any other, and the answer is read as Envoy reads it. Errors are
// gRPC statuses.
func (s *Service) Ask(ctx context.Context, r Request) (Response, error) {
	c := s.newCall()
	defer s.release(c)
	c.wire = r.append(nil)
	response, err := s.respond(ctx, c)
	if err != nil {
		return Response{}, err
	}
	return responseFrom(response), nil
}

// respond decides the request in c.wire and returns the response as whoever
// receives it reads it. Its errors are gRPC statuses.
func (s *Service) respond(ctx context.Context, c *call) (*ratelimitv3.RateLimitResponse, error) {
	if err := s.decide(ctx, c); err != nil {
		return nil, err
	}
	c.reply = c.answer.append(c.reply)
	response := new(ratelimitv3.RateLimitResponse)
	if err := proto.Unmarshal(c.reply, response); err != nil {
		return nil, grpcstatus.Errorf(codes.Internal, "reading the response: %v", err)
	}
	return response, nil
}

func responseFrom(m *ratelimitv3.RateLimitResponse) Response {
	const over = ratelimitv3.RateLimitResponse_OVER_LIMIT
	r := Response{OverLimit: m.GetOverallCode() == over}
	for _, status := range m.GetStatuses() {
		s := Status{
			OverLimit:  status.GetCode() == over,
			Remaining:  status.GetLimitRemaining(),
			UntilReset: status.GetDurationUntilReset().AsDuration(),
		}
		if l := status.GetCurrentLimit(); l != nil {
			s.Limit = &CurrentLimit{
				Name:            l.GetName(),
				RequestsPerUnit: l.GetRequestsPerUnit(),
				Unit:            strings.ToLower(l.GetUnit().String()),
				UnitMultiplier:  max(l.GetUnitMultiplier().GetValue(), 1),
			}
		}
		r.Statuses = append(r.Statuses, s)
	}
	return r
}

// append writes r as a RateLimitRequest.
func (r *Request) append(b []byte) []byte {
	b = appendString(b, 1, r.Domain)
	for i := range r.Descriptors {
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		start := len(b)
		b = prefixLength(r.Descriptors[i].append(b), start)
	}
	return appendUint(b, 3, uint64(r.HitsAddend))
}

// append writes d as a RateLimitDescriptor.
func (d *Descriptor) append(b []byte) []byte {
	for _, e := range d.Entries {
		b = protowire.AppendTag(b, 1, protowire.BytesType)
		start := len(b)
		b = prefixLength(appendString(appendString(b, 1, e.Key), 2, e.Value), start)
	}
	if o := d.Override; o != nil {
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		start := len(b)
		b = prefixLength(o.append(b), start)
	}
	if d.HitsAddend != nil {
		b = appendWrapped(b, 3, *d.HitsAddend)
	}
	return appendUint(b, 4, protowire.EncodeBool(d.NegativeHits))
}

// append writes o as a RateLimitOverride.
func (o *Override) append(b []byte) []byte {
	b = appendUint(b, 1, uint64(o.RequestsPerUnit))
	b = appendUint(b, 2, uint64(numberOf(o.Unit)))
	if o.UnitMultiplier > 0 {
		b = appendWrapped(b, 3, uint64(o.UnitMultiplier))
	}
	return b
}
