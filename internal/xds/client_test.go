package xds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"weir/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const configType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// subscriber notes what its client is told.
type subscriber struct {
	*Client
	t   *testing.T
	reg *prometheus.Registry

	mu      sync.Mutex
	applied []string // version: names of the resources
}

// subscribe runs a client until the test ends. It refuses resources of domain bad.
func subscribe(t *testing.T, opts Options) *subscriber {
	t.Helper()
	s := &subscriber{t: t, reg: prometheus.NewRegistry()}
	opts.NodeID, opts.Type, opts.Apply, opts.Logger, opts.Registerer = testenv.Node, configType, s.apply, slog.New(slog.DiscardHandler), s.reg
	opts.Credentials, opts.MaxMessageSize = insecure.NewCredentials(), cmp.Or(opts.MaxMessageSize, 4<<20)
	opts.Retry, opts.BackoffSpread = cmp.Or(opts.Retry, 10*time.Millisecond), 0.5
	opts.BackoffInitial, opts.BackoffMax = 10*time.Millisecond, 100*time.Millisecond
	client := testenv.Must(New(opts))(t)
	s.Client = client
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); client.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return s
}

func (s *subscriber) apply(_ context.Context, u Update) error {
	if u.Type != configType {
		return fmt.Errorf("type %q is not asked for", u.Type)
	}
	var names []string
	for _, r := range u.Resources {
		config := new(ratelimit.RateLimitConfig)
		if err := proto.Unmarshal(r.GetValue(), config); err != nil {
			return err
		}
		if config.GetDomain() == "bad" {
			return errors.New("bad domain\nin a resource")
		}
		names = append(names, config.GetName())
	}
	slices.Sort(names)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied = append(s.applied, u.Version+": "+strings.Join(names, " "))
	return nil
}

// want waits until the client was told this last.
func (s *subscriber) want(update string) {
	s.t.Helper()
	testenv.Eventually(s.t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.applied); n == 0 || s.applied[n-1] != update {
			return fmt.Errorf("got %q, want %q at the end", s.applied, update)
		}
		return nil
	})
}

// wantDown waits until there is no stream, for a reason.
func (s *subscriber) wantDown(reason string) {
	s.t.Helper()
	testenv.Eventually(s.t, func() error {
		if got := s.Status(); got.Connected || got.Err == nil || !strings.Contains(got.Err.Error(), reason) {
			return fmt.Errorf("got %+v, want %s", got, reason)
		}
		return nil
	})
}

// wantMetric compares what the client has registered, as a scrape shows it.
func (s *subscriber) wantMetric(connected int) {
	s.t.Helper()
	want := fmt.Sprintf("# HELP weir_xds_connected 1 while connected to the control plane, else 0.\n# TYPE weir_xds_connected gauge\nweir_xds_connected %d\n", connected)
	if err := testutil.GatherAndCompare(s.reg, strings.NewReader(want)); err != nil {
		s.t.Error(err)
	}
}

func config(name, domain string) string {
	return fmt.Sprintf(`{"name": %q, "domain": %q}`, name, domain)
}

func accepts(version string) func(*discovery.DiscoveryRequest) bool {
	return func(r *discovery.DiscoveryRequest) bool {
		return r.GetResponseNonce() != "" && r.GetErrorDetail() == nil && r.GetVersionInfo() == version
	}
}

func refuses(r *discovery.DiscoveryRequest) bool { return r.GetErrorDetail() != nil }

func TestResponsesAreAcceptedOrRefused(t *testing.T) {
	plane := testenv.StartControlPlane(t)
	plane.Set("1", config("a", "good"), config("b", "fine"))
	s := subscribe(t, Options{Server: plane.Addr, NodeMetadata: map[string]string{"zone": "x"}, Retry: time.Hour})
	s.want("1: a b")
	first := plane.Requests()[0]
	if first.GetVersionInfo() != "" || first.GetResponseNonce() != "" || first.GetTypeUrl() != configType || len(first.GetResourceNames()) != 0 ||
		first.GetNode().GetId() != testenv.Node || first.GetNode().GetMetadata().GetFields()["zone"].GetStringValue() != "x" {
		t.Errorf("the first request is %v", first)
	}
	plane.WaitFor("that accepts", accepts("1"))

	plane.Set("2", config("a", "bad"))
	refusal := plane.WaitFor("that refuses", refuses)
	if got := refusal.GetErrorDetail(); got.GetMessage() != "bad domain\nin a resource" || codes.Code(got.GetCode()) != codes.InvalidArgument {
		t.Errorf("got %v", got)
	}
	if refusal.GetVersionInfo() != "1" || refusal.GetResponseNonce() == "" {
		t.Errorf("the refusal is %v, want the version accepted last and a nonce", refusal)
	}
	s.want("1: a b")
	// It is sent again at once, and that request names its version, so that the control plane
	// waits for the next one.
	plane.WaitFor("that waits", func(r *discovery.DiscoveryRequest) bool { return refuses(r) && r.GetVersionInfo() == "2" })

	plane.Set("3", config("c", "good"))
	s.want("3: c")
	plane.WaitFor("that accepts", accepts("3"))
	plane.Set("4")
	s.want("4: ")
	if got := s.Status(); !got.Connected || got.Err != nil {
		t.Errorf("status: %+v", got)
	}
	s.wantMetric(1)
}

// TestControlPlaneStartedAnew counts on a version that means something else after
// a restart, as with Envoy Gateway, which counts from 1 again.
func TestControlPlaneStartedAnew(t *testing.T) {
	plane := testenv.StartControlPlane(t)
	plane.Stop()
	s := subscribe(t, Options{Server: plane.Addr})
	s.wantDown("connection refused")
	plane.Start()
	plane.Set("1", config("a", "good"))
	s.want("1: a")
	plane.WaitFor("that accepts", accepts("1"))

	plane.Stop()
	s.wantDown("")
	s.wantMetric(0)
	seen := len(plane.Requests())
	plane.Start()
	plane.Set("1", config("b", "good"))
	s.want("1: b")
	if first := plane.Requests()[seen]; first.GetVersionInfo() != "" || first.GetResponseNonce() != "" {
		t.Errorf("the first request of the new stream is %v", first)
	}
}

func TestLargeResponse(t *testing.T) {
	plane := testenv.StartControlPlane(t)
	plane.Set("1", config("a", "good"))
	bounded := subscribe(t, Options{Server: plane.Addr, MaxMessageSize: 1000})
	bounded.want("1: a")
	name := strings.Repeat("n", 5<<20)
	plane.Set("2", config(name, "good"))
	bounded.wantDown("at most 1000 bytes at once (see XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES)")
	subscribe(t, Options{Server: plane.Addr, MaxMessageSize: 6 << 20}).want("2: " + name)
	plane.Set("3", config("c", "good"))
	bounded.want("3: c")
}

func TestBadServer(t *testing.T) {
	_, err := New(Options{Server: "cp\x7f:1", Credentials: insecure.NewCredentials(), Registerer: prometheus.NewRegistry()})
	if err == nil || !strings.Contains(err.Error(), `control plane "cp\x7f:1": `) {
		t.Errorf("got %v", err)
	}
}
