package xds

import (
	"fmt"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// bytesOfMessage is the minimum mean size, in bytes, of the nested messages in a large response. Smaller
// messages would take a hundred times their size in memory.
const bytesOfMessage = 20

// codec refuses responses with too many nested messages.
type codec struct {
	encoding.CodecV2
	maxSize  int // maximum size of a response in bytes
	resource protoreflect.MessageDescriptor
}

func newCodec(standard encoding.CodecV2, opts *Options) codec {
	c := codec{CodecV2: standard, maxSize: opts.MaxMessageSize}
	if known, err := protoregistry.GlobalTypes.FindMessageByURL(opts.Type); err == nil {
		c.resource = known.Descriptor()
	}
	return c
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*discovery.DiscoveryResponse); ok {
		if most := c.maxSize / bytesOfMessage; c.count(r.ProtoReflect().Descriptor(), data.Materialize(), most, 0) > most {
			return fmt.Errorf("more than %d messages in a response (one for each %d bytes of XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES)", most, bytesOfMessage)
		}
	}
	return c.CodecV2.Unmarshal(data, v)
}

// count returns the number of messages in an encoded message of type d, or more than most as soon as
// it exceeds most. It ignores invalid bytes and messages nested too deeply, because decoding fails.
func (c codec) count(d protoreflect.MessageDescriptor, data []byte, most, depth int) (n int) {
	for len(data) > 0 && n <= most && depth < protowire.DefaultRecursionLimit {
		number, kind, size := protowire.ConsumeField(data)
		if size < 0 {
			return n
		}
		if f := d.Fields().ByNumber(number); f != nil && kind == protowire.BytesType {
			inner := f.Message()
			if d.FullName() == "google.protobuf.Any" && f.Name() == "value" {
				inner = c.resource
			}
			if inner != nil {
				_, _, tag := protowire.ConsumeTag(data)
				value, _ := protowire.ConsumeBytes(data[tag:])
				n += 1 + c.count(inner, value, most-n-1, depth+1)
			}
		}
		data = data[size:]
	}
	return n
}
