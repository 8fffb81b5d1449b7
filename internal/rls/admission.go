package rls

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// admission bounds how many requests are decided at a time, and how long each may
// take. The zero value bounds nothing.
type admission struct {
	most    int64 // 0 means any number
	timeout time.Duration
	inside  atomic.Int64
}

// errTooMany is the answer to a request beyond the bound. It is refused at once: to
// queue would only make every request late.
var errTooMany = grpcstatus.Error(codes.ResourceExhausted, "too many requests are being decided")

// enter tells whether one more request may be decided, and until when: before the
// deadline of the context that it returns. If so, leave must follow.
func (a *admission) enter(ctx context.Context) (bounded context.Context, leave func(), admitted bool) {
	if a.most == 0 && a.timeout == 0 {
		return ctx, func() {}, true
	}
	if n := a.inside.Add(1); a.most > 0 && n > a.most {
		a.inside.Add(-1)
		return nil, nil, false
	}
	if a.timeout == 0 {
		return ctx, func() { a.inside.Add(-1) }, true
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	return ctx, func() { cancel(); a.inside.Add(-1) }, true
}
