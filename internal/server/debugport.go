package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/operators/console"
	"weir/internal/plan"
	"weir/internal/telemetry"
)

// openDesk returns the actions of operators, joins the servers that share a Redis, and loads the
// exceptions. options are without exceptions.
func openDesk(o Options, life *lifecycle, store *store, rules *rules, options plan.Options, started time.Time) *operators.Desk {
	desk := &operators.Desk{
		Logger: o.Logger, Tree: rules.tree.Load, Store: store, Plan: options,
		Recorder: operators.NewRecorder(started), Spending: operators.NewSpending(o.Registry), InForce: operators.NewExceptionStore(store.shared, o.Registry, o.Logger),
	}
	desk.Plan.Exceptions = &desk.InForce.Current
	if store.shared != nil {
		desk.Servers = operators.NewServers(store.shared)
		life.background("servers", func(ctx context.Context) { desk.Servers.Run(ctx, desk.Report) })
	}
	life.background("exceptions", desk.InForce.Run)
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond) // if Redis does not answer yet, Run asks again
	defer cancel()
	_ = desk.InForce.Load(ctx) // which has logged its error
	return desk
}

// debugPort makes the endpoints of the debug port from the other parts of the server.
type debugPort struct {
	options Options
	started time.Time
	health  *health
	secrets *secrets
	store   *store
	rules   *rules
	source  source
	desk    *operators.Desk
	usage   *telemetry.Usage
	rates   *rates
}

// server returns the endpoints of the debug port. metrics is the handler of GET /stats.
func (d *debugPort) server(metrics http.Handler) *api.Server {
	server := &api.Server{
		Desk: d.desk, Access: d.secrets.access, Status: d.status, Metrics: metrics, Reload: d.source.reload,
		Dump: func(w io.Writer) error { return d.rules.dump(w, d.source.report()) },
	}
	server.Console = console.New(server, console.Options{
		History: d.rates.history, Loads: d.rules.lastLoads, Outcomes: d.usage.Outcomes,
		StoreMetrics: d.store.registry,
	})
	return server
}

// status returns the state of the server.
func (d *debugPort) status() api.Status {
	rates, answers := d.rates.latest(), d.options.Settings.Answers
	notes := append([]string{}, plan.SwitchedOn(answers.ShadowMode, answers.QuotaMode)...) // not nil, so that JSON has [] if there are none
	status := api.Status{
		Version: d.options.Build.String(), UptimeSeconds: time.Since(d.started).Seconds(), Health: "OK",
		Notes: append(notes, d.secrets.refused(d.store)...),
		Store: d.storeStatus(), Rules: d.source.report(), Exceptions: len(d.desk.InForce.All()),
		Decisions: rates.Decisions, Denials: rates.Denials,
	}
	if err := d.health.err(); err != nil {
		status.Health = err.Error()
	}
	return status
}

// storeStatus returns the state of the store.
func (d *debugPort) storeStatus() api.Store {
	if d.store.redis == nil {
		return api.Store{Name: fmt.Sprintf("in memory, at most %d", d.store.maxCounters), Works: true}
	}
	now := d.store.redis.State()
	status := api.Store{
		Name:  "in Redis at " + d.store.redisNames(),
		Works: now.FailingSince.IsZero() && !now.WorkedAt.IsZero(), WorkedAt: now.WorkedAt.UTC(),
		FailingSince: now.FailingSince.UTC(), FailedAt: now.FailedAt.UTC(),
		FailureMode: string(d.options.Settings.Failure.Mode), Breaker: now.Breaker,
	}
	if !now.FailedAt.IsZero() {
		status.Problem = now.Kind + ": " + now.Problem
	}
	return status
}

// The interval of samples, and the number of samples that rates keeps, which cover 15 minutes.
const ratesEvery, ratesKept = 5 * time.Second, 180

// rates samples the numbers of decided and denied requests for 15 minutes.
type rates struct {
	totals func() (decided, denied uint64) // totals since the start

	mu      sync.Mutex
	samples []sample // oldest first, one more than intervals
}

// sample is the totals at a time.
type sample struct {
	at              time.Time
	decided, denied uint64
}

func newRates(totals func() (decided, denied uint64)) *rates {
	r := &rates{totals: totals}
	r.samples = []sample{r.sample()}
	return r
}

func (r *rates) sample() sample {
	decided, denied := r.totals()
	return sample{time.Now(), decided, denied}
}

// run takes samples until ctx ends.
func (r *rates) run(ctx context.Context) {
	for pause(ctx, ratesEvery) {
		r.mu.Lock()
		r.samples = append(r.samples[max(0, len(r.samples)-ratesKept):], r.sample())
		r.mu.Unlock()
	}
}

// history returns the rates of the last 15 minutes, oldest first.
func (r *rates) history() (list []api.Rates) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, next := range r.samples[1:] {
		list = append(list, r.samples[i].until(next))
	}
	return list
}

// latest returns the rates of the last five to ten seconds, or since the start.
func (r *rates) latest() api.Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.samples[max(0, len(r.samples)-2)].until(r.sample())
}

// until returns the rates between two samples.
func (s sample) until(next sample) api.Rates {
	rates := api.Rates{At: next.at.UTC()}
	if seconds := next.at.Sub(s.at).Seconds(); seconds > 0 {
		rates.Decisions, rates.Denials = float64(next.decided-s.decided)/seconds, float64(next.denied-s.denied)/seconds
	}
	return rates
}
