package rls

import (
	"sync/atomic"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// admission bounds how many requests are decided at a time. The zero value bounds
// nothing.
type admission struct {
	most   int64 // 0 means any number
	inside atomic.Int64
}

// errTooMany is the answer to a request beyond the bound. It is refused at once: to
// queue would only make every request late.
var errTooMany = grpcstatus.Error(codes.ResourceExhausted, "too many requests are being decided")

// enter reports whether one more request may be decided. If so, leave must follow.
func (a *admission) enter() bool {
	if a.most > 0 && a.inside.Add(1) > a.most {
		a.inside.Add(-1)
		return false
	}
	return true
}

// leave makes room for another request.
func (a *admission) leave() {
	if a.most > 0 {
		a.inside.Add(-1)
	}
}
