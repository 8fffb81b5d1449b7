package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// endpoint receives events.
type endpoint struct {
	*httptest.Server
	answer func(n int, w http.ResponseWriter, r *http.Request) // answers the nth event; if nil, all events are accepted

	mu   sync.Mutex
	all  []string // the events as "threshold used descriptor", in order
	last cloudEvent
}

type cloudEvent struct {
	SpecVersion, ID, Source, Type, DataContentType string
	Time                                           time.Time
	Data                                           reached
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	e.last = cloudEvent{}
	err := json.Unmarshal(text, &e.last)
	descriptor, _ := e.last.Data.Descriptor.Spell()
	e.all = append(e.all, fmt.Sprint(e.last.Data.Threshold, " ", e.last.Data.Used, " ", descriptor))
	n := len(e.all)
	e.mu.Unlock()
	if err != nil || r.Header.Get("Content-Type") != "application/cloudevents+json; charset=UTF-8" || r.Header.Get("Authorization") != "Bearer x" || r.URL.Path != "/hook" {
		http.Error(w, "", http.StatusTeapot)
	} else if e.answer != nil {
		e.answer(n, w, r)
	}
}

// wants waits until the endpoint has received these events, and no others.
func (e *endpoint) wants(t *testing.T, events ...string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if got, want := strings.Join(e.all, "\n"), strings.Join(events, "\n"); got != want {
			return fmt.Errorf("got\n%s\nwant\n%s", got, want)
		}
		return nil
	})
}

// startEvents sends events to url until the test ends.
func startEvents(t *testing.T, url string) *Events {
	var log testenv.Log
	e := NewEvents(EventOptions{
		URL: url + "/hook", Auth: func() string { return "Bearer x" }, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		testenv.Lacks(t, log.String(), "hook") // the URL
	})
	return e
}

func (e *Events) wants(t *testing.T, sent, full, late float64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		for outcome, want := range map[string]float64{"sent": sent, "full": full, "late": late} {
			if got := testutil.ToFloat64(e.counted.WithLabelValues(outcome)); got != want {
				return fmt.Errorf("%v events are %s, want %v", got, outcome, want)
			}
		}
		return nil
	})
}

// TestEvents takes and returns units of counters, which reach 50, 80 and 100 %.
func TestEvents(t *testing.T) {
	f, end := newFixture(t, strings.ReplaceAll(budgetRules, "requests_per_unit: 4}", "requests_per_unit: 4, notify: [100]}"), false), newEndpoint(t)
	f.Store = memory.New(memory.Options{})
	f.Events = startEvents(t, end.URL)
	now := time.Now()
	take := func(user string, cost uint64, refund bool) {
		t.Helper()
		r := plan.Request{Domain: "api", Descriptors: []plan.Descriptor{{Entries: entries(user), HasHitsAddend: true, HitsAddend: cost, Refund: refund}}}
		f.decideAt(t.Context(), now, &r)
	}
	take("team=blue", 499, false)
	take("team=blue", 0, false) // a peek
	take("team=blue", 1, false)
	end.wants(t, "50 500 team=blue")
	want := reached{Threshold: 50, Used: 500, Amount: 1000, Source: Source{Domain: "api", Rule: "team", Limit: "hour", Rate: "1000 per hour"}}
	want.Window.Start, want.Window.End = now.Truncate(time.Hour).UTC(), now.Truncate(time.Hour).Add(time.Hour).UTC()
	got := end.last
	if want.Descriptor = got.Data.Descriptor; fmt.Sprint(got.Data) != fmt.Sprint(want) {
		t.Errorf("got %+v\nwant %+v", got.Data, want)
	}
	id := fmt.Sprintf("%s:50:%d", limiter.AppendDigest(nil, "p:w1|api|team=blue|1h"), want.Window.Start.Unix())
	if got.SpecVersion != "1.0" || got.ID != id || got.Source != "/weir" || got.Type != "weir.limit.reached" || got.DataContentType != "application/json" || time.Since(got.Time) > time.Hour {
		t.Errorf("got %+v", got)
	}
	take("team=blue", 100, true) // a refund
	take("team=blue", 200, false)
	take("team=red", 900, false) // reaches two thresholds in one hit
	end.wants(t, "50 500 team=blue", "50 900 team=red", "80 900 team=red")
	take("trial=x", 4, false)
	take("trial=x", 4, false)
	end.wants(t, "50 500 team=blue", "50 900 team=red", "80 900 team=red", "100 4 trial=x")
	testenv.Equal(t, end.last.Data.Shadow, true, "the event says that the limit denies nothing")
	take("team=blue", 600, false) // all are charged
	end.wants(t, "50 500 team=blue", "50 900 team=red", "80 900 team=red", "100 4 trial=x", "80 1200 team=blue", "100 1200 team=blue")
	f.Events.wants(t, 6, 0, 0)
}

// reach tells e that a counter has reached a percentage of its limit of 1000 per hour, with notify at 80 and
// 100.
func reach(e *Events, user string, percent int64) {
	l := limiter.MustLimit(limiter.Spec{RequestsPerUnit: 1000, Unit: limiter.Hour, Algorithm: limiter.FirstHit, Notify: []int{80, 100}, Series: limiter.LabelSet{Domain: "api", Rule: "user", Limit: "hour"}.Series()})
	h := limiter.Hit{Limit: l, Key: []byte(user), Cost: 1}
	d := limiter.Decision{Charged: true, Used: percent * 10, ResetAfter: time.Hour}
	if percent == 0 { // the window has ended
		percent, d.ResetAfter = 80, 0
	}
	e.reach(time.Now(), &Asked{Domain: "api", Entries: []limiter.Entry{{Key: "user", Value: user}}, Key: h.Key}, &h, &d, percent-1, percent)
}

// slowly is a transport that answers after four seconds.
type slowly struct{}

func (slowly) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(4 * time.Second)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestMarkEndsWithItsWindow sends an event slowly, five seconds before the window ends.
func TestMarkEndsWithItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEvents(EventOptions{URL: "http://x/", Auth: func() string { return "" }, Registerer: prometheus.NewRegistry()})
		e.client.Transport = slowly{}
		reach(e, "alice", 80)
		v := <-e.queue
		v.data.Window.End = time.Now().Add(5 * time.Second)
		if isTold, err := e.tell(t.Context(), v); !isTold || err != nil {
			t.Errorf("told %v, error %v", isTold, err)
		}
		time.Sleep(time.Until(v.data.Window.End))
		mark, _ := e.mark(t.Context(), v.counter+":80", "claimed", time.Second, false)
		testenv.Equal(t, mark, "", "mark in the next window")
	})
}

// TestEventsOfServers has two servers with the same counters. One of them cannot reach the endpoint. A third
// server has died after it claimed an event.
func TestEventsOfServers(t *testing.T) {
	end := newEndpoint(t)
	one, two := startEvents(t, "http://"+testenv.OwnAddr(t)), startEvents(t, end.URL)
	shared := localMarks()
	one.mark, two.mark = shared, shared
	_, _ = shared(t.Context(), string(limiter.AppendDigest(nil, "bob"))+":80", "claimed", 700*time.Millisecond, true)
	reach(one, "alice", 80)
	reach(two, "bob", 80)
	time.AfterFunc(300*time.Millisecond, func() { reach(two, "alice", 100) })
	testenv.Until(t, "all are sent", func() bool { return testutil.ToFloat64(two.counted.WithLabelValues("sent")) == 3 })
	order := map[string][]string{}
	for _, event := range end.all {
		threshold, rest, _ := strings.Cut(event, " ")
		order[rest] = append(order[rest], threshold)
	}
	testenv.Equal(t, fmt.Sprint(order), "map[1000 user=alice:[80 100] 800 user=bob:[80]]", "order")
	testenv.Until(t, "the first server knows it", func() bool { return one.waiting.Load() == 0 })
	one.wants(t, 0, 0, 0)
}

// TestEndpointThatHangs lets 100,000 counters reach 80 % while the endpoint hangs. No hit waits, and the
// events that do not fit are counted.
func TestEndpointThatHangs(t *testing.T) {
	end, quit := newEndpoint(t), make(chan struct{})
	end.answer = func(_ int, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-quit:
		}
	}
	t.Cleanup(func() { close(quit) })
	e := startEvents(t, end.URL)
	const counters = 100_000
	testenv.InProcessorTime(t, 2*time.Second, func() {
		for i := range counters {
			reach(e, fmt.Sprint(i), 80)
		}
	})
	e.wants(t, 0, counters-eventsKept, 0)
	testenv.Equal(t, e.waiting.Load(), eventsKept, "events that wait")
}

// TestEventsArePaced checks that an endpoint that accepts all events immediately gets at most maxSends in a
// second, and none of a window that has ended.
func TestEventsArePaced(t *testing.T) {
	e, start := startEvents(t, newEndpoint(t).URL), time.Now()
	reach(e, "late", 0)
	for i := range maxSends + senders {
		reach(e, fmt.Sprint(i), 80)
	}
	e.wants(t, maxSends+senders, 0, 1)
	if took := time.Since(start); took < time.Second {
		t.Errorf("%d events were sent in %v", maxSends+senders, took)
	}
	stopped := NewEvents(EventOptions{URL: e.opts.URL, Auth: e.opts.Auth, Registerer: prometheus.NewRegistry(), Logger: e.opts.Logger})
	for i := range 3 * maxSends {
		reach(stopped, fmt.Sprint(i), 80)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stopped.Run(ctx) // no pace holds back the queued events
	stopped.wants(t, 3*maxSends, 0, 0)
}
