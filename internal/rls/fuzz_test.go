package rls

import (
	"math"
	"slices"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// Whatever is sent, there is an answer to each descriptor or a reason why not.
func FuzzDecide(f *testing.F) {
	for _, wire := range wires(f) {
		f.Add(wire)
	}
	for _, wire := range wiresOfSeveral() {
		f.Add(wire)
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
		var response ratelimitv3.RateLimitResponse
		testenv.OK(t, proto.Unmarshal(c.reply, &response))
		if got, want := len(response.GetStatuses()), len(c.request.Descriptors); got != want {
			t.Errorf("%d statuses for %d descriptors", got, want)
		}
		checkStatuses(t, c)
		if response.GetDynamicMetadata() == nil {
			t.Error("no dynamic metadata")
		}
	})
}

// wiresOfSeveral are requests for rules with several limits.
func wiresOfSeveral() [][]byte {
	var wires [][]byte
	for _, key := range []string{"mixed", "windows", "even", "trial", "trials", "quotas", "partly", "replacing", "kept"} {
		for _, cost := range []uint64{0, 1, 4, 1 << 63} {
			own := entryMessage(key, "b").bytes(3, message{}.varint(1, cost))
			wires = append(wires, message{}.string(1, "api").varint(3, cost).
				bytes(2, entryMessage(key, "a")).bytes(2, own).bytes(2, own.varint(4, 1)))
		}
	}
	return wires
}

// checkStatuses compares the statuses of a call with what was decided for the
// limits of each descriptor, in other words than settle does.
func checkStatuses(t *testing.T, c *call) {
	t.Helper()
	enforced := false // some enforced limit is over
	next := 0         // hit
	for i := range c.result.Statuses {
		s, first := &c.result.Statuses[i], next
		next = hitsEnd(c, s, first)
		var visible, denied []limiter.Decision
		var limits []*limiter.Limit
		for j := first; j < next; j++ {
			limit, decision := c.result.Hits[j].Limit, c.result.Decisions[j]
			limits = append(limits, limit)
			if limit.Mode != limiter.Shadow {
				visible = append(visible, decision)
			}
			if limit.Mode != limiter.Shadow && decision.Over {
				denied = append(denied, decision)
			}
			enforced = enforced || limit.Mode == limiter.Enforced && decision.Over
		}
		if (s.Limit != nil) != (first < next) || s.Limit != nil && !slices.Contains(limits, s.Limit) {
			t.Errorf("status %d is about the limit %v, want one of %v", i, s.Limit, limits)
		}
		if s.OverLimit != (len(denied) > 0) {
			t.Errorf("status %d is over limit: %t, but %d limits deny it", i, s.OverLimit, len(denied))
		}
		if len(denied) > 0 && (s.Remaining != 0 || s.UntilReset != longestWait(denied)) {
			t.Errorf("status %d: %d remain for %v, want 0 for %v", i, s.Remaining, s.UntilReset, longestWait(denied))
		}
		for _, decision := range visible {
			if !s.OverLimit && int64(s.Remaining) > min(decision.Remaining, math.MaxUint32) {
				t.Errorf("status %d: %d remain, but of one limit only %d do", i, s.Remaining, decision.Remaining)
			}
		}
	}
	if next != len(c.result.Hits) {
		t.Errorf("%d hits are of a descriptor, want all %d", next, len(c.result.Hits))
	}
	if enforced && !c.result.Denied {
		t.Error("the request is admitted, though an enforced limit is over")
	}
}

// hitsEnd returns where the hits of a descriptor end that begin at next: each limit
// of its rule has one at most, in order.
func hitsEnd(c *call, s *plan.Status, next int) int {
	limits := []*limiter.Limit{s.Limit} // of an override
	if s.Rule != nil {
		limits = s.Rule.Limits
	}
	for _, l := range limits {
		if next < len(c.result.Hits) && c.result.Hits[next].Limit == l {
			next++
		}
	}
	return next
}

// longestWait is in whole seconds, 0 if no waiting helps.
func longestWait(denied []limiter.Decision) (longest time.Duration) {
	for _, decision := range denied {
		if decision.RetryAfter == limiter.Never {
			return 0
		}
		longest = max(longest, plan.RoundUp(decision.RetryAfter, time.Second))
	}
	return longest
}
