package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/spelling"
	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/operators/console"
	"weir/internal/operators/denials"
	"weir/internal/plan"
)

// firstLoad bounds how long a start waits for the exceptions: a Redis that is not there
// yet is asked again later.
const firstLoad = 500 * time.Millisecond

// openOperators makes a one of the servers that share its Redis, if it has one, and loads
// the exceptions.
func (a *App) openOperators() {
	var shared operators.Shared // nil, not a nil of its type
	if a.store.shared != nil {
		shared = a.store.shared
	}
	a.exceptions = operators.NewExceptions(shared, a.opts.Registry, a.logger)
	if shared != nil {
		a.servers = &operators.Servers{
			Shared: shared, Exceptions: a.exceptions, Forget: a.store.forget,
			Report: func(keys int) operators.Report {
				return operators.Report{Denials: a.denialsHere(keys), Uses: a.exceptions.Uses()}
			},
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstLoad)
	defer cancel()
	_ = a.exceptions.Load(ctx) // which has logged it
}

// denialsHere is what was denied here lately, with so many keys of a limit.
func (a *App) denialsHere(keys int) denials.Summary {
	summary := a.denials.Summary(time.Now(), keys)
	if tree := a.rules.tree.Load(); tree != nil {
		summary.Locate(tree.Places)
	}
	return summary
}

// others returns what the other servers on the Redis of this one report, if there is one.
// Those that do not answer within a second and a half are left out.
func (a *App) others(ctx context.Context) ([]operators.Report, error) {
	reports, err := a.servers.Reports(ctx)
	if err != nil {
		err = api.Errorf(api.ErrUnavailable, "the other servers cannot be asked (this one alone can: --this, or replicas=this): %w", err)
	}
	return reports, err
}

// denialsOf returns what was denied lately, here or on all servers, and how many servers
// that is of.
func (a *App) denialsOf(ctx context.Context, all bool) (api.Denials, error) {
	if !all || a.servers == nil {
		return api.Denials{Summary: a.denialsHere(denials.MaxKeys), Servers: 1}, nil
	}
	others, err := a.others(ctx)
	if err != nil {
		return api.Denials{}, err
	}
	summaries := []denials.Summary{a.denialsHere(operators.ReportedKeys)}
	for _, r := range others {
		summaries = append(summaries, r.Denials)
	}
	return api.Denials{Summary: denials.Merge(denials.MaxKeys, summaries...), Servers: len(summaries)}, nil
}

// exceptionsOf returns those in force, with their uses here or on all servers.
func (a *App) exceptionsOf(ctx context.Context, all bool) (api.Exceptions, error) {
	list := api.Exceptions{Exceptions: []api.Exception{}, Servers: 1}
	uses := map[string]uint64{} // on the others
	if all {
		others, err := a.others(ctx)
		if err != nil {
			return list, err
		}
		for _, r := range others {
			list.Servers++
			for id, n := range r.Uses {
				uses[id] += n
			}
		}
	}
	for _, e := range a.exceptions.All() {
		answer := api.ExceptionOf(e)
		answer.Used += uses[e.ID]
		list.Exceptions = append(list.Exceptions, answer)
	}
	return list, nil
}

// addException adds an exception for somebody at the address peer.
func (a *App) addException(ctx context.Context, n api.NewException, peer string) (api.Exception, error) {
	added, err := a.exceptions.Add(ctx, n, peer)
	if tree := a.rules.tree.Load(); err == nil && tree != nil {
		if domain, _, _ := n.Bytes(); !tree.HasDomain(domain) {
			added.Note = "no rule has the domain " + descriptors.Spell(limiter.Entry{Key: domain})
			if near := spelling.Nearest(domain, tree.DomainNames()); near != "" {
				added.Note += fmt.Sprintf(", did you mean %s?", descriptors.Spell(limiter.Entry{Key: near}))
			}
		}
	}
	return added, err
}

// makeOperators makes what operators see and do.
func (a *App) makeOperators(options plan.Options, metrics http.Handler) {
	s := a.opts.Settings
	a.operators = &api.Server{
		Access: a.access, Logger: a.logger, Status: a.status, Metrics: metrics, Dump: a.dump, Reload: a.source.reload,
		Tree: a.rules.tree.Load, Store: a.store, Plan: options, ShowKeys: a.servers != nil,
		Denials: a.denialsOf, Exceptions: a.exceptionsOf, AddException: a.addException, RemoveException: a.exceptions.Remove,
	}
	if a.servers != nil {
		a.operators.Announce = a.servers.AnnounceReset
	}
	a.operators.Console = console.New(a.operators, console.Options{
		History: a.rates.history, Loads: a.rules.lastLoads, Outcomes: a.usage.Outcomes,
		StoreMetrics: a.storeRegistry, MaxCounters: s.Store.MemoryMaxCounters, Failure: FailureMode(s.Failure.Mode),
	})
}
