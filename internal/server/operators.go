package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/operators/console"
	"weir/internal/plan"
)

// firstLoad bounds how long a start waits for the exceptions: a Redis that is not there
// yet is asked again later.
const firstLoad = 500 * time.Millisecond

// openOperators makes a one of the servers that share its Redis, if it has one, and loads
// the exceptions.
func (a *App) openOperators() {
	var shared limiter.Shared = a.store.shared // nil in memory
	a.exceptions = operators.NewExceptions(shared, a.opts.Registry, a.logger)
	if shared != nil {
		a.servers = operators.NewServers(shared)
		a.parts.background("servers", func(ctx context.Context) { a.servers.Run(ctx, a.operators.Report) })
	}
	a.parts.background("exceptions", a.exceptions.Run)
	ctx, cancel := context.WithTimeout(context.Background(), firstLoad)
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
	rates := a.rates.latest()
	status := api.Status{
		Version: a.opts.Build.String(), UptimeSeconds: time.Since(a.started).Seconds(), Health: "OK", Notes: a.notes(),
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

// notes are what else an operator should know.
func (a *App) notes() []string {
	s := a.opts.Settings.Answers
	return append(append([]string{}, plan.SwitchedOn(s.ShadowMode, s.QuotaMode)...), a.oldSecrets()...) // in JSON, none is []
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
