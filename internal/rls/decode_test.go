package rls

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// requestOf returns the request that decode must return for the encoding of m.
func requestOf(m *ratelimitv3.RateLimitRequest) plan.Request {
	r := plan.Request{Domain: m.GetDomain(), HitsAddend: m.GetHitsAddend()}
	for _, md := range m.GetDescriptors() {
		unit, _ := limiter.ParseUnit(md.GetLimit().GetUnit().String())
		d := plan.Descriptor{
			HasOverride: md.GetLimit() != nil,
			Override: plan.Override{
				RequestsPerUnit: md.GetLimit().GetRequestsPerUnit(),
				Unit:            unit,
				UnitMultiplier:  md.GetLimit().GetUnitMultiplier().GetValue(),
			},
			HasHitsAddend: md.GetHitsAddend() != nil,
			HitsAddend:    md.GetHitsAddend().GetValue(),
			Refund:        md.GetIsNegativeHits(),
		}
		for _, e := range md.GetEntries() {
			d.Entries = append(d.Entries, limiter.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// spell formats a request, so that requests can be compared regardless of their memory.
func spell(r *plan.Request) string {
	return fmt.Sprintf("%q %d %+v", r.Domain, r.HitsAddend, r.Descriptors)
}

// message is an encoded message. It can be built field by field, also in ways that no encoder would use.
type message []byte

func (m message) bytes(num protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, num, protowire.BytesType), b)
}

func (m message) string(num protowire.Number, s string) message { return m.bytes(num, []byte(s)) }

func (m message) varint(num protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, num, protowire.VarintType), v)
}

func (m message) fixed32(num protowire.Number, v uint32) message {
	return protowire.AppendFixed32(protowire.AppendTag(m, num, protowire.Fixed32Type), v)
}

func (m message) fixed64(num protowire.Number, v uint64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, num, protowire.Fixed64Type), v)
}

func (m message) group(num protowire.Number, body message) message {
	m = protowire.AppendTag(m, num, protowire.StartGroupType)
	return protowire.AppendTag(append(m, body...), num, protowire.EndGroupType)
}

// wires returns encoded requests, usual and unusual, for tests and fuzzing.
func wires(t testing.TB) map[string][]byte {
	full := request(t, "user=alice;path=(9223372036854775808,refund) user=bob(10/HOUR*3) {} +7")
	multiplier := message{}.varint(1, 5)
	return map[string][]byte{
		"empty":               {},
		"full":                full,
		"last scalar wins":    message{}.string(1, "a").varint(3, 1).string(1, "b").varint(3, 2),
		"zero addend is set":  message{}.bytes(2, message{}.bytes(3, nil)),
		"addends merge":       message{}.bytes(2, message{}.bytes(3, message{}.varint(1, 9)).bytes(3, nil)),
		"limits merge":        message{}.bytes(2, message{}.bytes(2, message{}.varint(1, 5)).bytes(2, message{}.varint(2, 2)).bytes(2, message{}.bytes(3, multiplier)).bytes(2, message{}.bytes(3, nil))),
		"wrong types":         message{}.varint(1, 1).fixed32(2, 1).fixed64(3, 1).bytes(3, nil).bytes(2, message{}.varint(1, 1).varint(2, 1).varint(3, 1).bytes(4, nil)),
		"wrong types below":   message{}.bytes(2, message{}.bytes(1, message{}.varint(1, 1).fixed64(2, 1)).bytes(2, message{}.bytes(1, nil).bytes(2, nil).varint(3, 1)).bytes(3, message{}.bytes(1, nil))),
		"unknown fields":      message{}.string(99, "x").bytes(2, message{}.varint(99, 1).bytes(1, message{}.fixed32(99, 1).string(1, "k"))),
		"groups":              message{}.group(99, message{}.varint(1, 1).group(2, message{}.string(1, "x"))).group(1, nil).string(1, "a"),
		"undefined unit":      message{}.bytes(2, message{}.bytes(2, message{}.varint(2, 1<<40|77))),
		"unit of responses":   message{}.bytes(2, message{}.bytes(2, message{}.varint(2, 7))),
		"numbers cut off":     message{}.varint(3, 1<<40|5).bytes(2, message{}.varint(4, 1<<40)),
		"not UTF-8":           message{}.string(1, "a\xff").bytes(2, message{}.bytes(1, message{}.string(1, "k\xfe").string(2, "\xff"))),
		"cut in a tag":        {0x80},
		"cut in a value":      full[:len(full)-1],
		"cut in a string":     message{}.string(1, "domain")[:4],
		"cut in a descriptor": message{}.bytes(2, message{}.string(1, "entry")[:3]),
		"cut in an entry":     message{}.bytes(2, message{}.bytes(1, message{}.string(1, "key")[:3])),
		"field number 0":      {0x00, 0x00},
		"field number 2^29":   protowire.AppendVarint(nil, 1<<29<<3),
		"reserved wire type":  {0x0f},
		"end of no group":     {0x0c},
		"group without end":   {0x0b},
		"endless varint":      {0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02},
	}
}

// checkDecode compares decode with generated code, which refuses strings that are not UTF-8 but
// is otherwise correct.
func checkDecode(t *testing.T, wire []byte) {
	t.Helper()
	c := call{wire: wire}
	err := c.decode(1 << 20)
	var m ratelimitv3.RateLimitRequest
	wantErr := proto.Unmarshal(wire, &m)
	want, hasMany := requestOf(&m), slices.ContainsFunc(m.GetDescriptors(), func(d *commonv3.RateLimitDescriptor) bool {
		return len(d.GetEntries()) > plan.MaxEntries
	})
	switch {
	case wantErr != nil && strings.Contains(wantErr.Error(), "invalid UTF-8"):
		// Generated code returns no result to compare with.
	case wantErr != nil && err == nil:
		t.Errorf("accepted, want %v", wantErr)
	case wantErr == nil && err != nil && (errors.Is(err, errMalformed) || !hasMany):
		t.Errorf("refused: %v", err)
	case wantErr == nil && err == nil && spell(&c.request) != spell(&want):
		t.Errorf("got %s, want %s", spell(&c.request), spell(&want))
	}
}

func FuzzDecode(f *testing.F) {
	for _, wire := range wires(f) {
		f.Add(wire)
	}
	f.Fuzz(checkDecode)
}

// Every request gets a status for each descriptor, or an error with the reason.
func FuzzDecide(f *testing.F) {
	for _, wire := range wires(f) {
		f.Add(wire)
	}
	for _, key := range []string{"mixed", "windows", "even", "trial", "trials", "quotas", "partly", "replacing", "kept"} {
		for _, cost := range []uint64{0, 1, 4, 1 << 63} {
			f.Add([]byte(request(f, fmt.Sprintf("%s=a %[1]s=b(%d) %[1]s=b(%[2]d,refund) +%[2]d", key, cost))))
		}
	}
	opts := options(f, rules)
	opts.DynamicMetadata = true
	opts.ResponseHeaders = Headers{Limit: "l", Remaining: "r", Reset: "s"}
	opts.RequestHeaders = opts.ResponseHeaders
	s := opts.service()
	f.Fuzz(func(t *testing.T, wire []byte) {
		c := s.calls.Get().(*call)
		defer s.release(c)
		c.wire = wire
		if err := s.decide(t.Context(), c); err != nil {
			if grpcstatus.Code(err) != codes.InvalidArgument {
				t.Errorf("got %v, want a reason that is INVALID_ARGUMENT", err)
			}
			return
		}
		answer := response(t, c.response)
		if len(c.result.Statuses) == 0 {
			return // the request is too large
		}
		testenv.Equal(t, len(answer.GetStatuses()), len(c.request.Descriptors), "statuses, one for each descriptor")
		if answer.GetDynamicMetadata() == nil {
			t.Error("no dynamic metadata")
		}
	})
}
