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

// ServerOptions are what a server needs that a Service is registered with: the
// codec of its messages, and their size. Other services of that server work as ever.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxReceived),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(protocodec.Name)}),
	}
}

// codec hands the bytes of a request to its call, and sends those of its reply.
// All other messages, of the health service for example, are left to the
// standard codec.
type codec struct{ encoding.CodecV2 }

// reply is the encoded response of a call. It is not part of the call, because
// gRPC sends it when the call is over.
type reply [1]mem.Buffer

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*reply); ok {
		return r[:], nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal gives a call its own copy of the bytes, which its strings may share.
// It does not decode them: gRPC reports what fails here as INTERNAL, while a
// bad request is INVALID_ARGUMENT.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if call, ok := v.(*call); ok {
		if call.size = data.Len(); call.size <= maxBytes {
			call.wire = data.Materialize()
		}
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// call holds all that one request needs, so that the next one finds it
// allocated. A call serves one request at a time.
type call struct {
	size    int    // of the request in bytes
	wire    []byte // the request, which its strings are parts of, unless it is too large; never written
	began   time.Time
	request plan.Request
	entries []limiter.Entry // of all descriptors of the request, one after the other
	result  plan.Result
	reply   []byte // the answer as it is sent
}

// release keeps the memory of c for a later call: its slices, but no reference to the bytes
// of the request or to the rules. Nothing of c may be used any more.
func (s *Service) release(c *call) {
	c.reset()
	s.calls.Put(c)
}

func (c *call) reset() {
	clear(c.entries)
	c.request.Reset()
	c.result.Reset()
	c.size, c.wire, c.entries, c.reply = 0, nil, c.entries[:0], c.reply[:0]
}
