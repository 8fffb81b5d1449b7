package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"weir/internal/limiter"
	"weir/internal/limiter/redis"
	"weir/internal/plan"
	"weir/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runServer runs one of several servers on a Redis, which reports that x was used so often.
func runServer(t *testing.T, r *testenv.Redis, uses uint64) (s *Servers, forgot *atomic.Int64, log *testenv.Log, stop func()) {
	t.Helper()
	shared := testenv.Must(redis.OpenShared(redis.Server{Addr: r.Addr()}, ""))(t)
	forgot, log = new(atomic.Int64), new(testenv.Log)
	s = &Servers{
		Shared: shared, Forget: func() { forgot.Add(1) },
		Exceptions: NewExceptions(shared, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(log, nil))),
		Report:     func(int) Report { return Report{Uses: map[string]uint64{"x": uses}} },
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(func() {
		stop()
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, forgot, log, stop
}

// wantOthers waits until the others of s report that sum, from so many servers.
func wantOthers(t *testing.T, s *Servers, servers int, sum uint64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		reports, err := s.Reports(t.Context())
		var got uint64
		for _, r := range reports {
			got += r.Uses["x"]
		}
		if err != nil || len(reports) != servers || got != sum {
			return fmt.Errorf("got %d from %d servers, error %v, want %d from %d", got, len(reports), err, sum, servers)
		}
		return nil
	})
}

// TestServersReport lets servers come, report, hang and go, and Redis fail and lose all.
func TestServersReport(t *testing.T) {
	t.Parallel()
	r := testenv.RedisServer(t)
	one, _, log, _ := runServer(t, r, 1)
	wantOthers(t, one, 0, 0)
	two, _, _, _ := runServer(t, r, 2)
	_, _, _, stop := runServer(t, r, 4)
	wantOthers(t, one, 2, 6)
	wantOthers(t, two, 2, 5)
	stop()
	wantOthers(t, one, 1, 2)

	// One that ended without a word is waited for once.
	testenv.Must(two.Shared.Set(t.Context(), serversHash, map[string]string{"gone": "here"}))(t)
	testenv.Eventually(t, func() error {
		if reports, err := one.Reports(t.Context()); err != nil || len(reports) != 1 {
			return fmt.Errorf("got %d reports, error %v", len(reports), err)
		}
		if fields, err := one.Shared.Fields(t.Context(), serversHash, "gone"); err != nil || len(fields) > 0 {
			return fmt.Errorf("got %q, error %v", fields, err)
		}
		return nil
	})
	// One of another version, or who knows who, says nothing that is understood.
	for name, report := range map[string]string{"garbage": "\x1f\x8b", "text": "{}"} {
		testenv.Must(two.Shared.Set(t.Context(), serversHash, map[string]string{name: "here"}))(t)
		testenv.OK(t, two.Shared.Report(t.Context(), name, []byte(report), time.Minute))
	}
	wantOthers(t, one, 1, 2)

	r.Stop()
	testenv.Eventually(t, func() error {
		if _, err := one.Reports(t.Context()); err == nil {
			return fmt.Errorf("got no error")
		}
		return nil
	})
	log.WaitFor(t, "exceptions could not be loaded, known ones stay in force")
	r.Start() // empty
	wantOthers(t, one, 1, 2)
	log.WaitFor(t, "exceptions can be loaded again")
}

// TestResetIsKnown announces resets, and wants each server to forget once.
func TestResetIsKnown(t *testing.T) {
	t.Parallel()
	r := testenv.RedisServer(t)
	one, forgot, _, _ := runServer(t, r, 0)
	_, other, _, _ := runServer(t, r, 0)
	want := func(n int64) {
		t.Helper()
		testenv.Until(t, "all servers forget", func() bool { return forgot.Load() == n && other.Load() == n })
	}
	want(1) // at the first poll
	for i := range int64(2) {
		began := time.Now()
		testenv.OK(t, one.announceReset(t.Context()))
		want(i + 2)
		t.Logf("known after %v", time.Since(began))
	}
}

// TestReportsFit makes reports of many limits and keys with long texts.
func TestReportsFit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		b := make([]byte, 128)
		for i := range b {
			b[i] = byte(random.IntN(256))
		}
		return string(b)
	}
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	recorder := NewRecorder(now)
	for i := range 100 {
		l := testenv.Must(limiter.NewLimit(limiter.Spec{
			RequestsPerUnit: 5, Unit: limiter.Minute,
			Series: limiter.LabelSet{Domain: "api", Key1: fmt.Sprint("key", i), Rule: fmt.Sprint("rule", i), Limit: "minute"}.Series(),
		}))(t)
		for range 10 {
			value := text()
			recorder.Record(now, &Denial{Limit: l, Asked: Asked{
				Domain: "api", Entries: []limiter.Entry{{Key: "user", Value: value}, {Key: "path", Value: value}}, Key: []byte(value),
			}})
		}
	}
	asked := []int{}
	data, err := encode(func(keys int) Report {
		asked = append(asked, keys)
		return Report{Denials: recorder.Denials(now, keys), Uses: map[string]uint64{"x": 1}}
	})
	if err != nil || len(data) > maxReport {
		t.Fatalf("%d bytes, error %v", len(data), err)
	}
	t.Logf("%d bytes, tried with %v keys of a limit", len(data), asked)
	report, err := decode(string(data))
	if err != nil || len(report.Denials.Minute.Limits) != 100 || report.Uses["x"] != 1 {
		t.Errorf("got %d limits, uses %v, error %v", len(report.Denials.Minute.Limits), report.Uses, err)
	}
	if _, err := encode(func(int) Report {
		return Report{Uses: map[string]uint64{strings.Join([]string{text(), strings.Repeat(text(), 5000)}, ""): 1, incompressible(random): 1}}
	}); err == nil {
		t.Error("a report that is too large is sent")
	}
}

func incompressible(random *rand.Rand) string {
	var b strings.Builder
	for b.Len() < 2*maxReport {
		fmt.Fprintf(&b, "%016x", random.Uint64())
	}
	return b.String()
}

// FuzzException wants back what was written, any bytes included.
func FuzzException(f *testing.F) {
	for _, text := range []string{"alice", "\xff\xfe", "a\x00b", "\u2028<script>", `{"base64":"AA=="}`, "\ufffd", "", strings.Repeat("ö", 2000), "\x1b[31m"} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		want := &plan.Exception{
			ID: "x", Domain: "d" + a, Entries: []limiter.Entry{{Key: a + b, Value: b}, {Key: b, Value: a}}, Effect: plan.Amount, Factor: 2.5,
			Created: time.Unix(1_700_000_000, 123456789).UTC(), Until: time.Unix(1_800_000_000, 1).UTC(), By: "bob", Reason: "why",
		}
		text := testenv.Must(json.Marshal(sharedException{exceptionFormat, exceptionOf(want)}))(t)
		if got, err := readException("x", string(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v from %s, want %+v", got, err, text, want)
		}
	})
}

// What a newer version wrote, or anybody else, is not guessed at.
func TestUnreadableExceptions(t *testing.T) {
	const rest = `"domain":"api","entries":[{"key":"user","value":"a"}],"until":"2027-01-01T00:00:00Z"`
	for text, want := range map[string]string{
		`{"format":3,"effect":"allow",` + rest + `}`:         "it has format 3, and this version reads format 2",
		`{"format":2,"effect":"slow",` + rest + `}`:          `undefined effect "slow"`,
		`{"format":2,"effect":"amount",` + rest + `}`:        "undefined factor 0",
		`{"format":2,"effect":"allow","domain":"api"}`:       "its domain, its entries or its end are missing",
		`{"format":2,"effect":"allow","domain_base64":"?"}`:  "domain_base64 is not valid base64",
		`{"format":1,"entries":[["user","a"]],"domain":"x"}`: "cannot unmarshal array",
		`nonsense`: "invalid character",
		``:         "unexpected end",
	} {
		if e, err := readException("x", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %s", text, e, err, want)
		}
	}
}
