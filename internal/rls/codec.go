package rls

import (
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// ServerOptions returns the options for a gRPC server with a Service: the codec and the maximum
// size of messages. Other services of that server work as usual.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxReceived),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(protocodec.Name)}),
		grpc.RPCDecompressor(noGzip{}), //nolint:staticcheck // nothing else overrides the compressors that libraries register
	}
}

// noGzip refuses compressed messages, because a small message may expand to a large one. Envoy does not
// compress. Without noGzip, the server would accept gzip, because exporters of traces register gzip.
type noGzip struct{}

func (noGzip) Type() string { return "gzip" }

func (noGzip) Do(io.Reader) ([]byte, error) {
	return nil, errors.New("compressed messages are not accepted")
}

// maxOther is the maximum size in bytes of a message for another service of the server. Streams may
// keep their first message, such as the name of a watched service, for as long as they are open.
const maxOther = 4 << 10

// codec passes the bytes of a request to its call, and sends the bytes of a reply. Messages of the
// quota service decode and encode themselves. The standard codec handles all other messages, such as
// messages of the health service.
type codec struct{ encoding.CodecV2 }

// reply is an encoded response for gRPC. It is not part of call, because gRPC sends it after
// handle has returned.
type reply [1]mem.Buffer

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *reply:
		return m[:], nil
	case interface{ Encode() mem.BufferSlice }:
		return m.Encode(), nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal gives a call its own copy of the bytes, which strings of the request may share. It
// does not decode them, because gRPC reports errors of Unmarshal as INTERNAL, but an invalid
// request must be reported as INVALID_ARGUMENT.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *call:
		if m.size = data.Len(); m.size <= maxBytes {
			m.wire = data.Materialize()
		}
		return nil
	case interface{ Decode(mem.BufferSlice) error }:
		return m.Decode(data)
	}
	if data.Len() > maxOther {
		return fmt.Errorf("the message has %d bytes, at most %d are allowed", data.Len(), maxOther)
	}
	return c.CodecV2.Unmarshal(data, v)
}

// call has the memory for one request at a time. Later requests reuse it, to avoid allocations.
type call struct {
	size     int    // size of the encoded request in bytes
	wire     []byte // the encoded request, or nil if it is too large; must not change, because strings share the bytes
	began    time.Time
	request  plan.Request
	entries  []limiter.Entry // entries of all descriptors, one after the other
	result   plan.Result
	response []byte // the encoded response
}

// release resets c and returns it to the pool. The caller must not use c afterwards.
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
