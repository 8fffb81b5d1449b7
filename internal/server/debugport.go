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

// openDesk joins the servers that share the Redis, if there is one, and loads the exceptions.
// options need no exceptions yet.
func openDesk(o Options, life *lifecycle, store *store, rules *rules, options plan.Options, started time.Time) *operators.Desk {
	desk := &operators.Desk{
		Logger: o.Logger, Tree: rules.tree.Load, Store: store, Plan: options,
		Recorder: operators.NewRecorder(started), InForce: operators.NewExceptions(store.shared, o.Registry, o.Logger),
	}
	desk.Plan.Exceptions = desk.InForce.Current()
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

// debugPort shows operators the server, and takes their orders.
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

// server returns the HTTP server's endpoints. metrics is the handler of GET /stats.
func (d *debugPort) server(metrics http.Handler) *api.Server {
	server := &api.Server{
		Desk: d.desk, Access: d.secrets.access, Status: d.status, Metrics: metrics, Reload: d.source.reload,
		Dump: func(w io.Writer) error { return d.rules.dump(w, d.source.report()) },
	}
	server.Console = console.New(server, console.Options{
		History: d.rates.history, Loads: d.rules.lastLoads, Outcomes: d.usage.Outcomes,
		StoreMetrics: d.store.registry, Failure: FailureMode(d.options.Settings.Failure),
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

// How often rates looks, and how many looks it keeps, which is 15 minutes of them.
const ratesEvery, ratesKept = 5 * time.Second, 180

// rates keeps how many requests were decided and denied in the last 15 minutes.
type rates struct {
	totals func() (decided, denied uint64) // since the start

	mu    sync.Mutex
	looks []look // the oldest first, one more than there are times between them
}

// look is the totals at a time.
type look struct {
	at              time.Time
	decided, denied uint64
}

func newRates(totals func() (decided, denied uint64)) *rates {
	r := &rates{totals: totals}
	r.looks = []look{r.look()}
	return r
}

func (r *rates) look() look {
	decided, denied := r.totals()
	return look{time.Now(), decided, denied}
}

// run looks until ctx ends.
func (r *rates) run(ctx context.Context) {
	for pause(ctx, ratesEvery) {
		r.mu.Lock()
		r.looks = append(r.looks[max(0, len(r.looks)-ratesKept):], r.look())
		r.mu.Unlock()
	}
}

// history returns the rates of the last 15 minutes, the oldest first.
func (r *rates) history() (list []api.Rates) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, next := range r.looks[1:] {
		list = append(list, r.looks[i].until(next))
	}
	return list
}

// latest returns the rates of the last five to ten seconds, or since the start.
func (r *rates) latest() api.Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looks[max(0, len(r.looks)-2)].until(r.look())
}

// until returns the rates between two looks.
func (l look) until(next look) api.Rates {
	rates := api.Rates{At: next.at.UTC()}
	if seconds := next.at.Sub(l.at).Seconds(); seconds > 0 {
		rates.Decisions, rates.Denials = float64(next.decided-l.decided)/seconds, float64(next.denied-l.denied)/seconds
	}
	return rates
}
