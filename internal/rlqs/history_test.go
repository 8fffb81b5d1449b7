package rlqs

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/redis"
	"weir/internal/testenv"
)

// world has servers and Envoys on a virtual clock. It measures what all Envoys together admit of one limit.
type world struct {
	t        *testing.T
	random   *rand.Rand
	now      time.Time
	tree     *descriptors.Tree
	redis    *miniredis.Miniredis // nil means one server, in memory
	servers  []*Pool
	envoys   []*envoy
	mail     []letter // answers on their way
	delay    time.Duration
	failure  limiter.FailureMode
	reports  int
	level    float64 // of a bucket that drains at the rate of the limit
	most     float64
	admitted float64
	rate     float64 // of the limit
	uncapped float64 // admitted by failure mode allow
	times    float64 // number of limits that bound allows, because failure mode local assigns the limit again in an outage
	down     bool    // Redis fails
	failed   time.Time
}

type letter struct {
	at     time.Time
	envoy  *envoy
	stream *Envoy
	action *quotav3.RateLimitQuotaResponse_BucketAction
}

// envoy is the filter of Envoy 1.40: a changed bucket keeps its fill ratio, a new one is full,
// lifetimes begin when an answer arrives, and nothing passes without a share.
type envoy struct {
	id              string
	server          int
	stream          *Envoy
	known           bool // the bucket exists
	open            bool // everything passes, by failure mode allow
	size, tokens    float64
	perSecond       float64
	expires         time.Time
	demand          float64 // requests per second
	carry           float64
	allowed, denied uint64
	next            time.Time // of the next report
}

const life = 15 * time.Second

func newWorld(t *testing.T, seed uint64, servers int, rule string) *world {
	files := []descriptors.File{{Name: "rules.yaml", Data: []byte("{domain: api, descriptors: [{key: tenant, quota_service: true, rate_limit: {" + rule + "}}]}")}}
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_800_000_000, 0), delay: 900 * time.Millisecond, failure: limiter.FailureError, times: 1}
	w.tree = testenv.Must(descriptors.Load(files, descriptors.Options{}))(t)
	l := w.limit()
	w.rate = float64(l.RequestsPerUnit) / l.Period().Seconds()
	if servers > 1 {
		w.redis = miniredis.RunT(t)
	}
	for range servers {
		w.servers = append(w.servers, nil)
	}
	for i := range w.servers {
		w.restart(i)
	}
	return w
}

func (w *world) limit() *limiter.Limit {
	for l := range w.tree.Limits() {
		return l
	}
	return nil
}

// restart replaces a server, which forgets everything. Streams to it break.
func (w *world) restart(i int) {
	o := Options{Rules: func() *descriptors.Tree { return w.tree }, Life: life, Failure: w.failure, Servers: func() int { return len(w.servers) }, Logger: slog.New(slog.DiscardHandler)}
	if w.redis != nil {
		shared := redis.OpenShared(redis.Server{Addr: w.redis.Addr()}, "")
		w.t.Cleanup(func() { shared.Close() })
		o.Store = shared
	}
	w.servers[i] = NewPool(w.now, o)
	for _, e := range w.envoys {
		if e.server == i {
			e.stream = nil
		}
	}
}

// report sends a report of the bucket.
func (w *world) report(e *envoy) {
	if e.stream == nil {
		e.server = w.random.IntN(len(w.servers))
		e.stream = w.servers[e.server].NewEnvoy(e.id)
	}
	bytes := testenv.Must(proto.Marshal(&quotav3.RateLimitQuotaUsageReports{Domain: "api", BucketQuotaUsages: []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{{
		BucketId:           &quotav3.BucketId{Bucket: map[string]string{"tenant": "a"}},
		NumRequestsAllowed: e.allowed, NumRequestsDenied: e.denied,
	}}}))(w.t)
	var r report
	testenv.OK(w.t, r.Decode(mem.BufferSlice{mem.SliceBuffer(bytes)}))
	w.servers[e.server].Report(w.now, e.stream, &r)
	e.allowed, e.denied = 0, 0
	w.reports++
}

// step lets time pass: Envoys serve requests, servers make rounds, and answers arrive.
func (w *world) step(by time.Duration) {
	w.now = w.now.Add(by)
	if w.redis != nil {
		w.redis.SetTime(w.now)
		w.redis.FastForward(by)
		if w.down {
			w.failed = w.now
		}
	}
	w.level = max(0, w.level-w.times*w.rate*by.Seconds())
	for _, e := range w.envoys {
		w.serve(e, by)
	}
	w.most = max(w.most, w.level)
	for i, s := range w.servers {
		s.Round(w.t.Context(), func() time.Time { return w.now })
		for e := range s.envoys {
			select {
			case a := <-e.answers:
				w.post(i, e, a)
			default:
			}
		}
	}
	kept := w.mail[:0]
	for _, l := range w.mail {
		if l.at.After(w.now) {
			kept = append(kept, l)
		} else if l.envoy.stream == l.stream {
			l.envoy.receive(w.now, l.action)
		}
	}
	w.mail = kept
}

func (w *world) post(server int, stream *Envoy, a answer) {
	var response quotav3.RateLimitQuotaResponse
	testenv.OK(w.t, proto.Unmarshal(a, &response))
	for _, e := range w.envoys {
		if e.stream == stream {
			for _, action := range response.BucketAction {
				at := w.now.Add(time.Duration(w.random.Int64N(int64(w.delay))))
				for _, earlier := range w.mail { // in order
					if earlier.stream == stream && earlier.at.After(at) {
						at = earlier.at
					}
				}
				w.mail = append(w.mail, letter{at, e, stream, action})
			}
		}
	}
}

// serve lets requests arrive at an Envoy.
func (w *world) serve(e *envoy, by time.Duration) {
	e.tokens = min(e.size, e.tokens+e.perSecond*by.Seconds())
	e.carry += e.demand * by.Seconds()
	asked := float64(int(e.carry))
	e.carry -= asked
	if asked == 0 {
		return
	}
	if !e.known { // the first request makes the bucket, and is reported immediately
		e.known, e.denied = true, e.denied+1
		asked--
		w.report(e)
		e.next = w.now.Add(time.Duration(w.random.Int64N(int64(reportEvery))))
	}
	if w.now.Before(e.expires) && e.open {
		e.allowed += uint64(asked)
		w.uncapped += asked
		return
	}
	passed := 0.0
	if w.now.Before(e.expires) {
		passed = min(asked, float64(int(e.tokens+1e-9)))
	}
	e.tokens -= passed
	w.level += passed
	w.admitted += passed
	e.allowed += uint64(passed)
	e.denied += uint64(asked - passed)
}

func (e *envoy) receive(now time.Time, action *quotav3.RateLimitQuotaResponse_BucketAction) {
	if action.GetAbandonAction() != nil {
		e.known, e.open, e.size, e.expires = false, false, 0, time.Time{}
		return
	}
	a := action.GetQuotaAssignmentAction()
	expired := !now.Before(e.expires)
	e.expires = now.Add(a.AssignmentTimeToLive.AsDuration())
	b := a.RateLimitStrategy.GetTokenBucket()
	if b == nil {
		e.open = a.RateLimitStrategy.GetBlanketRule() == typev3.RateLimitStrategy_ALLOW_ALL
		e.size, e.tokens, e.perSecond = 0, 0, 0
		return
	}
	e.open = false
	size := float64(b.MaxTokens)
	if expired || e.size == 0 {
		e.tokens = size
	} else {
		e.tokens *= size / e.size
	}
	e.size, e.perSecond = size, float64(b.TokensPerFill.Value)/b.FillInterval.AsDuration().Seconds()
}

// bound is the most that may be used of a bucket that drains at the rate of the limit.
func (w *world) bound() float64 {
	return w.times*(float64(w.limit().Size())+w.rate*w.delay.Seconds()) + 1e-6
}

// TestDifferentialHistories lets Envoys come and go, report late, twice or never, and servers and Redis die,
// with each failure mode. In the end, no Envoy may hold a share. WEIR_DIFFERENTIAL is the number of reports.
func TestDifferentialHistories(t *testing.T) {
	reports := testenv.Must(strconv.Atoi(cmp.Or(os.Getenv("WEIR_DIFFERENTIAL"), "4500")))(t)
	done, admitted, uncapped := 0, 0.0, 0.0
	for seed := uint64(0); done < reports; seed++ {
		rule := []string{"unit: second, requests_per_unit: 20", "unit: minute, requests_per_unit: 600, burst: 30, algorithm: token_bucket", "unit: second, requests_per_unit: 7, burst: 3, algorithm: token_bucket"}[seed/3%3]
		mode := []limiter.FailureMode{limiter.FailureError, limiter.FailureAllow, limiter.FailureDeny, limiter.FailureLocal}[seed%4]
		rule += fmt.Sprintf(", failure_mode: %s", mode)
		w := newWorld(t, seed, 1+int(seed%3), rule)
		if mode == limiter.FailureLocal {
			w.times = 2
		}
		for range 1200 {
			w.disturb()
			w.step(time.Duration(50+w.random.IntN(400)) * time.Millisecond)
			if w.level > w.bound() {
				t.Fatalf("seed %d, %s: %.1f of the limit are used at %v, at most %.1f may be", seed, rule, w.level, w.now, w.bound())
			}
		}
		for _, e := range w.envoys {
			e.demand, e.next = 0, w.now.Add(time.Hour)
		}
		w.redisWorks()
		for range 120 {
			w.step(500 * time.Millisecond)
		}
		w.wantHome()
		done, admitted, uncapped = done+w.reports, admitted+w.admitted, uncapped+w.uncapped
	}
	t.Logf("%d reports, %.0f requests admitted, %.0f by failure mode allow", done, admitted, uncapped)
	if admitted < float64(reports) || uncapped == 0 {
		t.Errorf("only %.0f requests were admitted, %.0f by failure mode allow: the histories test nothing", admitted, uncapped)
	}
}

func (w *world) redisWorks() {
	if w.redis != nil {
		w.redis.SetError("")
		w.down = false
	}
}

// disturb sends the reports that are due, and may cause a random event.
func (w *world) disturb() {
	for _, e := range w.envoys {
		if e.known && !w.now.Before(e.next) {
			e.next = w.now.Add(reportEvery)
			switch w.random.IntN(20) {
			case 0: // late
				e.next = w.now.Add(time.Duration(w.random.Int64N(int64(20 * time.Second))))
			case 1: // lost
				e.allowed, e.denied = 0, 0
			case 2:
				w.report(e)
				w.report(e)
			case 3: // a lie
				e.denied += 1 << 40
				w.report(e)
			default:
				w.report(e)
			}
		}
	}
	switch n := w.random.IntN(1000); {
	case n < 20 && len(w.envoys) < 12:
		w.envoys = append(w.envoys, &envoy{id: fmt.Sprint("envoy", w.reports), demand: w.random.Float64() * 60})
	case n < 40 && len(w.envoys) > 0: // the demand changes
		w.envoys[w.random.IntN(len(w.envoys))].demand = max(0, w.random.Float64()*90-30)
	case n < 46 && len(w.envoys) > 0: // the stream breaks
		if e := w.envoys[w.random.IntN(len(w.envoys))]; e.stream != nil {
			w.servers[e.server].Remove(e.stream)
			e.stream = nil
		}
	case n < 50 && len(w.envoys) > 0: // the Envoy dies
		i := w.random.IntN(len(w.envoys))
		if e := w.envoys[i]; e.stream != nil {
			w.servers[e.server].Remove(e.stream)
		}
		w.envoys = append(w.envoys[:i], w.envoys[i+1:]...)
	case n < 54 && (w.times == 1 || w.now.Sub(w.failed) > 2*life): // a new server does not know of local shares
		w.restart(w.random.IntN(len(w.servers)))
	case n < 57 && w.redis != nil:
		w.redis.SetError("LOADING")
		w.down = true
	case n < 65:
		w.redisWorks()
	case n < 66 && w.redis != nil:
		w.redis.FlushAll()
	}
}

// wantHome checks that no Envoy holds a share.
func (w *world) wantHome() {
	w.t.Helper()
	for i, s := range w.servers {
		for _, b := range s.buckets {
			w.t.Errorf("server %d has a bucket with %d members, %d charged", i, len(b.members), b.charged)
		}
	}
	if w.redis != nil {
		for _, key := range w.redis.Keys() {
			if !strings.HasSuffix(key, "shares") {
				w.t.Errorf("Redis has %s: %v", key, testenv.Must(w.redis.HKeys(key))(w.t))
			}
		}
	}
}
