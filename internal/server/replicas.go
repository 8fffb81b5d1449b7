package server

import (
	"context"
	"time"

	"weir/internal/limiter/redis"
	"weir/internal/operators/api"
	"weir/internal/operators/denials"
	"weir/internal/operators/replicas"
)

// openReplicas makes a one of the servers that share its Redis, if it has one.
func (a *App) openReplicas() {
	if a.store.board == nil {
		return
	}
	a.replicas = replicas.New(replicas.Options{
		Board:  servers{a.store.board},
		Report: a.report,
		Forget: a.store.forget,
		Logger: a.logger,
	})
}

// servers is the board as package replicas asks it.
type servers struct{ *redis.Board }

// Poll implements replicas.Board.
func (s servers) Poll(ctx context.Context, server string) (reset string, wanted bool, err error) {
	said, err := s.Board.Poll(ctx, server)
	return said.Reset, said.Wanted, err
}

// report is what this server says to others.
func (a *App) report(keys int) replicas.Report {
	r := replicas.Report{Denials: a.denialsHere(keys)}
	if a.uses != nil {
		r.Uses = a.uses()
	}
	return r
}

// denialsHere is what was denied here lately, with so many keys of a limit.
func (a *App) denialsHere(keys int) denials.Summary {
	summary := a.denials.Summary(time.Now(), keys)
	if tree := a.rules.tree.Load(); tree != nil {
		summary.Locate(tree.Places)
	}
	return summary
}

// denialsOf returns what was denied lately, here or on all servers that share the Redis
// of this one, and how many servers that is of. Those that do not answer within a second
// and a half are left out.
func (a *App) denialsOf(ctx context.Context, all bool) (summary denials.Summary, servers int, err error) {
	if !all || a.replicas == nil {
		return a.denialsHere(denials.MaxKeys), 1, nil
	}
	others, err := a.replicas.Reports(ctx)
	if err != nil {
		return denials.Summary{}, 0, api.Errorf(api.ErrUnavailable, "the other servers cannot be asked (this one alone can: --this, or replicas=this): %w", err)
	}
	summaries := []denials.Summary{a.denialsHere(replicas.Keys)}
	for _, r := range others {
		summaries = append(summaries, r.Denials)
	}
	return denials.Merge(denials.MaxKeys, summaries...), len(summaries), nil
}

// usesOf returns how often each exception was applied, by its ID: here, or on all
// servers, and how many servers that is of.
func (a *App) usesOf(ctx context.Context, all bool) (uses map[string]uint64, servers int, err error) {
	var here map[string]uint64
	if a.uses != nil {
		here = a.uses()
	}
	if !all || a.replicas == nil {
		return here, 1, nil
	}
	others, err := a.replicas.Reports(ctx)
	if err != nil {
		return nil, 0, api.Errorf(api.ErrUnavailable, "the other servers cannot be asked (this one alone can: --this, or replicas=this): %w", err)
	}
	return replicas.Sum(here, others), 1 + len(others), nil
}
