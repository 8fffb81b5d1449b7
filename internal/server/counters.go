package server

import (
	"context"
	"log/slog"
	"strings"

	"weir/internal/limiter"
	"weir/internal/operators/api"
	"weir/internal/operators/excerpt"
	"weir/internal/plan"
)

// openCounters lets operators look at counters, and reset them.
func (a *App) openCounters(options plan.Options) {
	o := api.CounterOptions{Rules: a.rules.tree.Load, Store: a.store, Plan: options, ShowKeys: a.servers != nil}
	if a.servers != nil {
		o.Announce = a.servers.AnnounceReset
	}
	a.counters = api.NewCounterReader(o)
}

// peek returns what is used of the limits of a descriptor. It counts nothing.
func (a *App) peek(ctx context.Context, d api.Descriptor) (api.Counters, error) {
	domain, entries, err := api.Entries(d)
	if err != nil {
		return api.Counters{}, err
	}
	answer, err := a.counters.Peek(ctx, domain, entries)
	answer.Exception = a.findException(domain, entries)
	return answer, err
}

// reset sets the counters of a descriptor to zero, and logs who wanted it: by is what they
// say themselves, peer who they are.
func (a *App) reset(ctx context.Context, d api.Descriptor, by, peer string) (api.Counters, error) {
	domain, entries, err := api.Entries(d)
	if err != nil {
		return api.Counters{}, err
	}
	answer, err := a.counters.Reset(ctx, domain, entries)
	answer.Exception = a.findException(domain, entries)
	if answer.Rule == "" && err == nil {
		return answer, nil // there was nothing to reset
	}
	shown, text := a.shown(domain, entries)
	attrs := []slog.Attr{
		slog.Bool("audit", true), slog.String("by", excerpt.Begin(by, excerpt.MaxValue)), slog.String("peer", peer),
		slog.String("domain", shown), slog.String("descriptor", text), slog.String("rule", answer.Rule), slog.Int("counters", answer.Reset),
	}
	if err != nil {
		a.logger.LogAttrs(ctx, slog.LevelWarn, "counters not reset everywhere", append(attrs, slog.Any("err", err))...)
		return answer, err
	}
	a.logger.LogAttrs(ctx, slog.LevelInfo, "counters reset", attrs...)
	return answer, nil
}

// shownText bounds the text of a descriptor in the log, in bytes.
const shownText = 1024

// shown returns what the log may show of a descriptor: not too much of it, and digests
// where no value is to be readable.
func (a *App) shown(domain string, entries []limiter.Entry) (shownDomain, text string) {
	source := excerpt.Source{Domain: domain, Entries: entries, Hashed: a.counters.Plan.Keys.DigestsValues()}
	d := excerpt.Read(source.Append(nil, shownText))
	words := make([]string, len(d.Entries))
	for i, e := range d.Entries {
		words[i] = e.Key + "=" + e.Value
	}
	return d.Domain, strings.Join(words, ",")
}
