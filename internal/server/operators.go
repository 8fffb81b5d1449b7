package server

import (
	"context"
	"io"
	"net/http"
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
