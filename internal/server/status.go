package server

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/operators/api"
	"weir/internal/plan"
)

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
		Name:  "in Redis at " + strings.Join(a.store.redis.Names(), ", of limits per second at "),
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
	for _, s := range a.secrets.secrets {
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
