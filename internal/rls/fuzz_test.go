package rls

import (
	"fmt"
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
		answer := response(t, c.reply)
		if got, want := len(answer.GetStatuses()), len(c.request.Descriptors); got != want {
			t.Errorf("%d statuses for %d descriptors", got, want)
		}
		if answer.GetDynamicMetadata() == nil {
			t.Error("no dynamic metadata")
		}
	})
}
