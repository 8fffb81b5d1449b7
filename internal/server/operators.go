package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/operators/console"
	"weir/internal/plan"
)

// openOperators joins the servers that share the Redis, if there is one, and loads the
// exceptions.
func (a *App) openOperators() {
	a.exceptions = operators.NewExceptions(a.store.shared, a.opts.Registry, a.logger)
	if a.store.shared != nil {
		a.servers = operators.NewServers(a.store.shared)
		a.parts.background("servers", func(ctx context.Context) { a.servers.Run(ctx, a.operators.Report) })
	}
	a.parts.background("exceptions", a.exceptions.Run)
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond) // a Redis that is not there yet is asked again later
	defer cancel()
	_ = a.exceptions.Load(ctx) // which has logged it
}

// makeOperators makes what operators see and do.
func (a *App) makeOperators(options plan.Options, metrics http.Handler) {
	s := a.opts.Settings
	a.operators = &api.Server{
		Desk: &operators.Desk{
			Logger: a.logger, Tree: a.rules.tree.Load, Store: &a.store, Plan: options,
			Recorder: a.denials, InForce: a.exceptions, Servers: a.servers,
		},
		Access: a.access, Status: a.status, Metrics: metrics, Reload: a.source.reload,
		Dump: func(w io.Writer) error { return a.rules.dump(w, a.source.report()) },
	}
	a.operators.Console = console.New(a.operators, console.Options{
		History: a.rates.history, Loads: a.rules.lastLoads, Outcomes: a.usage.Outcomes,
		StoreMetrics: a.storeRegistry, Failure: FailureMode(s.Failure.Mode),
	})
}

// status is how the server is.
func (a *App) status() api.Status {
	rates, answers := a.rates.latest(), a.opts.Settings.Answers
	notes := append([]string{}, plan.SwitchedOn(answers.ShadowMode, answers.QuotaMode)...) // in JSON, none is []
	status := api.Status{
		Version: a.opts.Build.String(), UptimeSeconds: time.Since(a.started).Seconds(), Health: "OK", Notes: append(notes, a.oldSecrets()...),
		Store: a.storeStatus(), Rules: a.source.report(), Exceptions: len(a.exceptions.All()),
		Decisions: rates.Decisions, Denials: rates.Denials,
	}
	if err := a.health.err(); err != nil {
		status.Health = err.Error()
	}
	return status
}

// storeStatus is what the status page shows.
func (a *App) storeStatus() api.Store {
	s := a.opts.Settings
	if a.store.redis == nil {
		return api.Store{Name: fmt.Sprintf("in memory, at most %d", a.store.maxCounters), Works: true}
	}
	now := a.store.redis.State()
	status := api.Store{
		Name:  "in Redis at " + a.redisNames(),
		Works: now.FailingSince.IsZero() && !now.WorkedAt.IsZero(), WorkedAt: now.WorkedAt.UTC(),
		FailingSince: now.FailingSince.UTC(), FailedAt: now.FailedAt.UTC(),
		FailureMode: string(s.Failure.Mode), Breaker: now.Breaker,
	}
	if !now.FailedAt.IsZero() {
		status.Problem = now.Kind + ": " + now.Problem
	}
	return status
}

// oldSecrets says which secrets are in use that were read before, and why not those of now.
func (a *App) oldSecrets() (notes []string) {
	note := func(problem string) {
		if problem != "" {
			notes = append(notes, "the previous value stays in use: "+problem)
		}
	}
	for _, s := range a.secrets {
		note(s.Problem())
	}
	if a.access.Token != nil {
		note(a.access.Token.Problem())
	}
	if a.store.redis != nil {
		if err := a.store.redis.Refused(); err != nil {
			note("Redis rejects a changed URL, user or password: " + strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return notes
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
