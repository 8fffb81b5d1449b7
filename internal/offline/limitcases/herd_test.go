// Package limitcases has a single test: many workers share a small limit and wait as long as
// the answers say. For the decisions of usual limits, second by second, see
// testdata/asked_test.yaml of package limittest.
package limitcases

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/redis"
	"weir/internal/plan"
	"weir/internal/rls"
	"weir/internal/telemetry"
	"weir/internal/testenv"
)

// herdLimits are limits that 100 workers share.
var herdLimits = []struct {
	name, limit string
	inSeconds   float64 // maximum time of workers that wait in whole seconds, relative to the least time that the limit allows
}{
	{"fixed window", "{unit: second, requests_per_unit: 50}", 1.2},
	{"window of the first hit", "{unit: second, requests_per_unit: 50, algorithm: first_hit}", 1.2},
	// Workers that begin together and wait in whole seconds always come in the same part
	// of a second. Once a second, a sliding window then admits 25 to 50 requests, and a
	// bucket its burst. No answer can improve that.
	{"sliding window", "{unit: second, requests_per_unit: 50, algorithm: sliding_window}", 2.1},
	{"bucket of burst 5", "{unit: second, requests_per_unit: 50, algorithm: token_bucket, burst: 5}", 10.1},
	{"fixed window of a minute", "{unit: minute, requests_per_unit: 50}", 1.2},
	{"sliding window of a minute", "{unit: minute, requests_per_unit: 50, algorithm: sliding_window}", 1.2},
	{"bucket of a minute", "{unit: minute, requests_per_unit: 50, algorithm: token_bucket, burst: 5}", 1.2},
}

const (
	herdWorkers = 100
	herdJobs    = 500
	herdTries   = 3                // maximum average of a job
	patience    = 20 * time.Second // longer than any call takes on a busy machine
)

// waiting describes how the workers wait.
type waiting struct {
	name   string
	header string        // response header that has the time to wait
	unit   time.Duration // unit of the header
	jitter float64       // maximum random change of the time to wait, relative to it
}

var waitings = []waiting{
	{"milliseconds", "Retry-After-Ms", time.Millisecond, 0},
	{"seconds with jitter", "Retry-After", time.Second, 0.5},
	{"seconds", "Retry-After", time.Second, 0},
}

// TestHerdOfWorkers has workers that share a limit do jobs one after the other. A denied
// worker waits as long as the answer says.
func TestHerdOfWorkers(t *testing.T) {
	t.Parallel()
	for _, l := range herdLimits {
		for _, phase := range []time.Duration{0, 370 * time.Millisecond} {
			t.Run(fmt.Sprint(l.name, "/", phase), func(t *testing.T) {
				t.Parallel()
				began := time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC).Add(phase)
				least := newHerd(t, l.limit, false, waitings[0], began).run(1, 1)
				for _, w := range waitings {
					most, tries := 1.2, float64(herdTries)
					if w.name == "seconds" && l.inSeconds > most {
						most, tries = l.inSeconds, 4*herdTries
					}
					expectHerd(t, newHerd(t, l.limit, false, w, began), least, most, tries)
				}
				if phase > 0 && !strings.HasSuffix(l.name, "minute") {
					expectHerd(t, newHerd(t, l.limit, true, waitings[0], began), least, 1.2, herdTries)
				}
			})
		}
	}
}

// expectHerd runs the workers. It fails the test if they need more than most times the least
// time, which the limit itself needs, or more than tries tries per job.
func expectHerd(t *testing.T, h *herd, least time.Duration, most, tries float64) {
	t.Helper()
	took, tried := h.run(herdWorkers, 1000), float64(h.tries)/herdJobs
	if took.Seconds() > most*least.Seconds() {
		t.Errorf("%s: the workers need %v, want at most %.1f times %v", h.name, took, most, least)
	}
	if tried > tries {
		t.Errorf("%s: a job takes %.2f tries, want at most %.0f", h.name, tried, tries)
	}
}

// clock is a clock that stands still until it is set.
type clock struct{ micros atomic.Int64 }

func (c *clock) now() time.Time  { return time.UnixMicro(c.micros.Load()) }
func (c *clock) set(t time.Time) { c.micros.Store(t.UnixMicro()) }

// herd is a server whose clock the workers set.
type herd struct {
	*testing.T
	clock
	http.Handler
	waiting
	began  time.Time
	random *rand.Rand
	tries  int
}

func newHerd(t *testing.T, limit string, onRedis bool, w waiting, began time.Time) *herd {
	t.Helper()
	h := &herd{T: t, waiting: w, began: began, random: rand.New(rand.NewPCG(1, 2))}
	h.set(began)
	tree := testenv.Must(descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte(
		"domain: api\ndescriptors: [{key: job, rate_limit: " + limit + "}]\n")}}, descriptors.Options{}))(t)
	store := limiter.Store(memory.New(memory.Options{Now: h.now}))
	if onRedis {
		main := redis.Server{Addr: miniredis.RunT(t).Addr(), Timeout: patience}
		onRedis := redis.New(redis.Options{Main: main, Wait: patience, Now: h.now, DenyMemory: 1 << 20})
		t.Cleanup(func() { _ = onRedis.Close() })
		store = onRedis
	}
	reg := prometheus.NewRegistry()
	h.Handler = rls.New(rls.Options{
		Decider: &plan.Decider{
			Planner: plan.New(plan.Options{}), Rules: func() *descriptors.Tree { return tree },
			Store: store, Spread: limiter.NewRetrySpread(h.now), Usage: telemetry.New(reg, nil, 0),
		},
		Registerer: reg,
		Logger:     slog.New(slog.DiscardHandler),
	}).JSONHandler()
	return h
}

// ask asks for a job at the given time. It returns whether the job is admitted and, if
// not, how long to wait.
func (h *herd) ask(at time.Time) (admitted bool, wait time.Duration) {
	h.Helper()
	h.set(at)
	h.tries++
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(
		`{"domain": "api", "descriptors": [{"entries": [{"key": "job", "value": "it"}]}]}`)))
	switch w.Code {
	case http.StatusOK:
		return true, 0
	case http.StatusTooManyRequests:
		n, err := strconv.Atoi(w.Header().Get(h.header))
		if err != nil {
			h.Fatalf("%s: %v", h.header, err)
		}
		jitter := h.jitter * (2*h.random.Float64() - 1)
		return false, time.Duration(float64(n) * float64(h.unit) * (1 + jitter))
	}
	h.Fatalf("status %d: %s", w.Code, w.Body)
	return false, 0
}

// run has workers do the jobs, and returns the time that they took. A request and its
// answer each travel for less than travels microseconds. A single worker with travels 1
// always asks at the right time, and so needs the least time that the limit allows.
func (h *herd) run(workers, travels int) time.Duration {
	travel := func() time.Duration { return time.Duration(h.random.IntN(travels)) * time.Microsecond }
	arrives := make([]time.Time, workers)
	for i := range arrives {
		arrives[i] = h.began.Add(travel())
	}
	for done := 0; ; {
		next := 0
		for i := range arrives {
			if arrives[i].Before(arrives[next]) {
				next = i
			}
		}
		at := arrives[next]
		admitted, wait := h.ask(at)
		if admitted {
			if done++; done == herdJobs {
				return at.Sub(h.began)
			}
		}
		arrives[next] = at.Add(travel() + wait + travel())
	}
}
