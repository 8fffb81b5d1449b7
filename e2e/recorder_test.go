package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"weir/internal/testenv"
)

// recorder is a rate limit service that remembers what Envoy asks about the requests of
// each user. It answers as the name of the user says.
type recorder struct {
	service.UnimplementedRateLimitServiceServer
	addr  string
	ended chan struct{} // closed when the test ends

	mu    sync.Mutex
	users map[string]*record
}

// record is what Envoy asked about one user.
type record struct {
	takes, gives int
	ids          []string // of the requests, each once
	cancelled    bool     // a call that was not answered
}

func startRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{ended: make(chan struct{}), users: map[string]*record{}}
	server := grpc.NewServer()
	service.RegisterRateLimitServiceServer(server, r)
	r.addr = testenv.ServeGRPC(t, server)
	t.Cleanup(func() { close(r.ended) })
	return r
}

// ShouldRateLimit implements service.RateLimitServiceServer.
func (r *recorder) ShouldRateLimit(ctx context.Context, request *service.RateLimitRequest) (*service.RateLimitResponse, error) {
	d := request.GetDescriptors()[0]
	user, id := d.GetEntries()[0].GetValue(), d.GetEntries()[1].GetValue()
	r.note(user, func(u *record) {
		if d.GetIsNegativeHits() {
			u.gives++
		} else {
			u.takes++
		}
		if !slices.Contains(u.ids, id) {
			u.ids = append(u.ids, id)
		}
	})
	switch kind, _, _ := strings.Cut(user, " "); {
	case d.GetIsNegativeHits():
	case kind == "denied":
		return &service.RateLimitResponse{OverallCode: service.RateLimitResponse_OVER_LIMIT}, nil
	case kind == "undecided":
		return nil, grpcstatus.Error(codes.Unavailable, "the store failed")
	case kind == "unanswered":
		<-ctx.Done()
		r.note(user, func(u *record) { u.cancelled = true })
		<-r.ended // or the answer may come just before Envoy gives up
	}
	return &service.RateLimitResponse{OverallCode: service.RateLimitResponse_OK}, nil
}

func (r *recorder) note(user string, change func(*record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[user] == nil {
		r.users[user] = new(record)
	}
	change(r.users[user])
}

// of returns what is known of a user.
func (r *recorder) of(user string) (u record) {
	r.note(user, func(known *record) { u = *known })
	return u
}

// waitFor waits until what is known of a user is as wished.
func (r *recorder) waitFor(t *testing.T, user string, wished func(record) bool) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if u := r.of(user); !wished(u) {
			return fmt.Errorf("%s: %+v", user, u)
		}
		return nil
	})
}

// String words the calls, takes first: their order is not known, because they may be on
// their way at the same time.
func (u record) String() string {
	if u.takes+u.gives == 0 {
		return "-"
	}
	return strings.TrimSpace(strings.Repeat("take ", u.takes) + strings.Repeat("give ", u.gives))
}
