package rls

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// ServerOptions returns the options for a gRPC server with a Service: the codec and the maximum
// size of messages. They do not change other services of that server.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxReceived),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(protocodec.Name)}),
	}
}

// codec passes the bytes of a request to its call, and sends the bytes of a reply. It leaves all
// other messages, for example of the health service, to the standard codec.
type codec struct{ encoding.CodecV2 }

// reply is an encoded response on its way to gRPC. It is not part of the call, because gRPC
// sends it after the call has ended.
type reply [1]mem.Buffer

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*reply); ok {
		return r[:], nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal gives a call its own copy of the bytes, which the strings of the request may share.
// It does not decode them, because gRPC reports errors of Unmarshal as INTERNAL, and an invalid
// request must be INVALID_ARGUMENT.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if call, ok := v.(*call); ok {
		if call.size = data.Len(); call.size <= maxBytes {
			call.wire = data.Materialize()
		}
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// call has the memory for one request at a time. Later requests use it again, to avoid
// allocations.
type call struct {
	size     int    // of the encoded request in bytes
	wire     []byte // the encoded request, or nil if it is too large; strings share it, so it is never written
	began    time.Time
	request  plan.Request
	entries  []limiter.Entry // of all descriptors of the request, one after the other
	result   plan.Result
	response []byte // the encoded response
}

// release returns c to the pool without its references to the bytes of the request and to the
// rules. The caller must not use c afterwards.
func (s *Service) release(c *call) {
	c.reset()
	s.calls.Put(c)
}

func (c *call) reset() {
	clear(c.entries)
	c.request.Reset()
	c.result.Reset()
	c.size, c.wire, c.entries, c.response = 0, nil, c.entries[:0], c.response[:0]
}
