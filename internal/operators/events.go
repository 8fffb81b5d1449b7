package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
)

// EventOptions are the options of Events.
type EventOptions struct {
	URL        string
	Auth       func() string // value of the header Authorization, or "" for none
	Shared     Shared        // or nil if no other server has the same counters
	Registerer prometheus.Registerer
	Logger     *slog.Logger
}

// Events sends a CloudEvent when a counter reaches a threshold of the field notify. Only one of all servers sends
// the event in each window, and lower thresholds come first. No request waits for an event. Events tries again
// until the event is accepted or the window ends. It is safe for concurrent use.
//
// Servers share a mark for each threshold of a counter: "claimed" while a server sends the event, and
// "told" once the event is accepted. A server first sends the events of lower thresholds whose marks are
// not "told". So a server that dies delays other servers by at most claimLasts. If the dead server had
// sent the event, the repeated event has the same ID.
type Events struct {
	opts    EventOptions
	mark    markFunc
	client  *http.Client
	queue   chan *event
	waiting atomic.Int64 // events in the queue, being sent or waiting for another attempt
	counted *prometheus.CounterVec
	warn    rate.Sometimes
	pace    *rate.Limiter

	Failed atomic.Uint64 // number of failed attempts and of dropped events
}

const (
	eventsKept  = 8192 // maximum number of waiting events, at most 2 KiB each
	senders     = 4
	maxSends    = 500 // per second, which leaves enough processor time for decisions
	sendTimeout = 5 * time.Second
	claimLasts  = 8 * time.Second // longer than an attempt
	lastSends   = 2 * time.Second // time to send the queued events when the server stops
	told        = "told"
	marksBytes  = 1 << 20 // size of the marks without Redis, enough for 30,000 thresholds
)

// event is the highest threshold that a counter has reached, with all lower thresholds.
type event struct {
	data     reached
	counter  string // digest of the counter's key
	percents []int
	wait     backoff.ExponentialBackOff
}

// reached is the data of an event.
type reached struct {
	Source
	Descriptor Excerpt `json:"descriptor"`
	Threshold  int     `json:"threshold"` // percent
	Used       int64   `json:"used"`
	Amount     uint64  `json:"amount"`
	Window     struct {
		Start time.Time `json:"start"`
		End   time.Time `json:"end"`
	} `json:"window"`
}

// NewEvents returns an Events that sends nothing until Run is called.
func NewEvents(opts EventOptions) *Events {
	e := &Events{
		opts: opts, queue: make(chan *event, eventsKept), warn: rate.Sometimes{Interval: time.Minute}, pace: rate.NewLimiter(maxSends, senders),
		client: &http.Client{Timeout: sendTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		counted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_events_total",
			Help: "Events of reached thresholds: sent, EVENTS_URL accepted it; failed, an attempt that is repeated; full, dropped because too many waited; late, dropped because the window ended.",
		}, []string{"outcome"}),
	}
	if opts.Shared != nil {
		e.mark = opts.Shared.Mark
	} else {
		e.mark = localMarks()
	}
	for _, outcome := range []string{"sent", "failed", "full", "late"} {
		e.counted.WithLabelValues(outcome)
	}
	opts.Registerer.MustRegister(e.counted)
	return e
}

// reach queues an event if a hit has raised the used percentage to a threshold. It does not retain parameter a.
func (e *Events) reach(now time.Time, a *Asked, h *limiter.Hit, d *limiter.Decision, before, after int64) {
	n, _ := slices.BinarySearch(h.Limit.Notify, int(after)+1) // number of thresholds at or below the new percentage
	if n == 0 || int64(h.Limit.Notify[n-1]) <= before {
		return
	}
	if e.waiting.Add(1) > eventsKept {
		e.waiting.Add(-1)
		e.fail("full")
		return
	}
	v := &event{
		counter: string(limiter.AppendDigest(nil, string(h.Key))), percents: h.Limit.Notify[:n],
		wait: backoff.ExponentialBackOff{InitialInterval: time.Second, MaxInterval: 30 * time.Second, Multiplier: 2, RandomizationFactor: 0.5},
		data: reached{Descriptor: a.Excerpt(logText), Used: d.Used, Amount: h.Limit.Size()},
	}
	v.data.Source = newSource(h.Limit, v.data.Descriptor.Domain, h.EffectiveMode() == limiter.Shadow)
	v.data.Window.Start, v.data.Window.End = h.Limit.Window(now, d.ResetAfter)
	e.queue <- v // has room for all waiting events
}

func (e *Events) fail(outcome string) {
	e.Failed.Add(1)
	e.counted.WithLabelValues(outcome).Inc()
}

// Run sends events until ctx ends. Then it sends the queued events without a pace, for at most lastSends.
func (e *Events) Run(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() {
		e.pace.SetLimit(rate.Inf)
		time.AfterFunc(lastSends, cancel)
	})
	var running sync.WaitGroup
	for range senders {
		running.Go(func() {
			for sending.Err() == nil && (ctx.Err() == nil || len(e.queue) > 0) {
				select {
				case v := <-e.queue:
					e.handle(sending, v)
				case <-ctx.Done():
				}
			}
		})
	}
	running.Wait()
	e.client.CloseIdleConnections()
}

// handle sends an event, or queues it again for a later attempt.
func (e *Events) handle(ctx context.Context, v *event) {
	left := time.Until(v.data.Window.End)
	if left <= 0 {
		e.waiting.Add(-1)
		e.fail("late")
		return
	}
	isTold, err := e.tell(ctx, v)
	if isTold {
		e.waiting.Add(-1)
		return
	}
	if err != nil && ctx.Err() == nil {
		e.fail("failed")
		e.warn.Do(func() {
			e.opts.Logger.Warn("an event cannot be sent, Weir tries again", "err", plaintext.Line(err.Error()), "waiting", e.waiting.Load())
		})
	}
	time.AfterFunc(min(v.wait.NextBackOff(), left), func() { e.queue <- v })
}

// tell sends an event for each threshold whose mark is not "told", the lowest first. It reports whether all
// marks are "told". If isTold is false and err is nil, another sender has claimed one of the events.
func (e *Events) tell(ctx context.Context, v *event) (isTold bool, err error) {
	for _, percent := range v.percents {
		name := fmt.Sprintf("%s:%d", v.counter, percent)
		mark, err := e.mark(ctx, name, "claimed", claimLasts, false)
		if mark == told {
			continue
		}
		if mark != "" || err != nil {
			return false, err
		}
		_ = e.pace.Wait(ctx) // if ctx is done, send fails
		v.data.Threshold = percent
		if err := e.send(ctx, name, &v.data); err != nil {
			_, _ = e.mark(ctx, name, "released", time.Millisecond, true) // so that the claim does not delay the next attempt
			return false, err
		}
		e.counted.WithLabelValues("sent").Inc()
		// The mark expires before the window ends, so that it cannot hide an event of the next window.
		_, _ = e.mark(ctx, name, told, max(time.Until(v.data.Window.End)-time.Second, time.Millisecond), true)
	}
	return true, nil
}

// send sends one event. Its error does not quote the URL, which may be secret.
func (e *Events) send(ctx context.Context, name string, data *reached) error {
	body, _ := json.Marshal(map[string]any{ // cannot fail: it has only plain fields
		"specversion": "1.0", "type": "weir.limit.reached", "source": "/weir", "id": fmt.Sprintf("%s:%d", name, data.Window.Start.Unix()),
		"time": time.Now().UTC(), "datacontenttype": "application/json", "data": data,
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.opts.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("it is not a URL")
	}
	request.Header.Set("Content-Type", "application/cloudevents+json; charset=UTF-8")
	if auth := e.opts.Auth(); auth != "" {
		request.Header.Set("Authorization", auth)
	}
	response, err := e.client.Do(request)
	if failed, is := errors.AsType[*url.Error](err); is {
		return failed.Err
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // so that the connection can be used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("it answers with status %d", response.StatusCode)
	}
	return nil
}

// markFunc is the type of Shared.Mark.
type markFunc func(ctx context.Context, name, text string, lasts time.Duration, replace bool) (other string, err error)

// localMarks returns an implementation of Shared.Mark for a server that shares no counters.
func localMarks() markFunc {
	type mark struct {
		text    string
		expires time.Time
	}
	recent := limiter.NewRecent[mark](marksBytes)
	return func(_ context.Context, name, text string, lasts time.Duration, replace bool) (other string, _ error) {
		recent.Touch([]byte(name), func(m *mark) {
			if now := time.Now(); !replace && now.Before(m.expires) {
				other = m.text
			} else {
				*m = mark{text, now.Add(lasts)}
			}
		})
		return other, nil
	}
}
