package server

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/operators/denials"
	"weir/internal/plan"
	"weir/internal/server/admin"
	"weir/internal/settings"
)

// status is what the status page shows.
func (a *App) status() admin.Status {
	now := time.Now()
	rates := a.rates.latest(now)
	return admin.Status{
		Version:    a.opts.Version,
		Uptime:     now.Sub(a.started),
		Health:     a.health.err(),
		Store:      a.store.status(),
		Rules:      a.source.report(),
		Notes:      a.notes(),
		Exceptions: len(a.exceptions.All()),
		Decided:    rates.Decisions,
		Denied:     rates.Denials,
	}
}

// notes are what else an operator should know.
func (a *App) notes() []string {
	return append(switchedOn(a.opts.Settings.Answers), a.oldSecrets()...)
}

// oldSecrets says which secrets are in use that were read before, and why not those of now.
func (a *App) oldSecrets() (notes []string) {
	for _, problem := range append(a.secrets.problems(), a.access.Problem()) {
		if problem != "" {
			notes = append(notes, "what was read before stays in use: "+problem)
		}
	}
	if a.store.refused == nil {
		return notes
	}
	if err := a.store.refused(); err != nil {
		notes = append(notes, "what was read before stays in use: Redis refuses a changed URL, user or password: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return notes
}

// registerSecrets registers the metric of secrets that cannot be used.
func (a *App) registerSecrets() {
	a.opts.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "weir", Name: "secrets_refused", Help: "Changed secrets that cannot be read or that Redis refuses, so that those read before stay in use.",
	}, func() float64 { return float64(len(a.oldSecrets())) }))
}

// deniedOn is what was denied lately on so many servers.
type deniedOn struct {
	denials.Summary
	Servers int `json:"servers"`
}

// switchedOn says which switches are on, see plan.Options.
func switchedOn(s settings.Answers) []string {
	return (&plan.Options{ShadowMode: s.ShadowMode, QuotaMode: s.QuotaMode}).SwitchedOn()
}
