package app

import (
	"time"

	"weir/internal/admin"
	"weir/internal/denials"
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
	notes := switchedOn(a.opts.Settings.Answers)
	if problem := a.access.Problem(); problem != "" {
		notes = append(notes, "the token read before stays in use: "+problem)
	}
	return notes
}

// deniedOn is what was denied lately on so many servers.
type deniedOn struct {
	denials.Summary
	Servers int `json:"servers"`
}

// switchedOn tells of the switches that change the answer to every request and
// are on: left on by mistake, they would go unnoticed.
func switchedOn(s settings.Answers) (notes []string) {
	if s.ShadowMode {
		notes = append(notes, "SHADOW_MODE is on: no request is denied")
	}
	if s.QuotaMode {
		notes = append(notes, "QUOTA_MODE is on: a request is denied only if all its limits are over")
	}
	return notes
}
