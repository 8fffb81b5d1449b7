package rls

import (
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// Whatever is sent, there is an answer to each descriptor or a reason why not.
func FuzzDecide(f *testing.F) {
	for _, wire := range wires(f) {
		f.Add(wire)
	}
	for _, key := range []string{"mixed", "windows", "even", "trial", "trials", "quotas", "partly", "replacing", "kept"} {
		for _, cost := range []uint64{0, 1, 4, 1 << 63} {
			own := entryMessage(key, "b").bytes(3, message{}.varint(1, cost))
			f.Add([]byte(message{}.string(1, "api").varint(3, cost).
				bytes(2, entryMessage(key, "a")).bytes(2, own).bytes(2, own.varint(4, 1))))
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
		response := responseOf(t, c.reply)
		if got, want := len(response.GetStatuses()), len(c.request.Descriptors); got != want {
			t.Errorf("%d statuses for %d descriptors", got, want)
		}
		if response.GetDynamicMetadata() == nil {
			t.Error("no dynamic metadata")
		}
	})
}
