package exceptions

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"weir/internal/descriptors/plaintext"
)

// every is how often the store is asked for its version.
const every = 500 * time.Millisecond

// runLoads loads until ctx ends.
func (k *Keeper) runLoads(ctx context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		_ = k.Load(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Load learns what the store has. If that fails, those known stay in force.
func (k *Keeper) Load(ctx context.Context) error {
	ctx, done, err := k.store(ctx)
	if err != nil {
		return err // others ask it
	}
	defer done()
	err = k.load(ctx)
	if err == nil {
		k.forget(ctx, forgetAfter)
	}
	switch {
	case err != nil && !k.failing && ctx.Err() != context.Canceled:
		k.opts.Logger.Warn("exceptions could not be loaded, those known stay in force", "err", plaintext.Line(err.Error()))
	case err == nil && k.failing:
		k.opts.Logger.Info("exceptions can be loaded again")
	}
	k.failing = err != nil
	return err
}

// load is Load for a caller that holds k.storing.
func (k *Keeper) load(ctx context.Context) error {
	// Once more after something was put back, for the version.
	for range 2 {
		records, version, err := k.opts.Store.Load(ctx, k.version)
		if err == nil && (version != k.version || k.hasLost(version)) {
			var lost []Record
			if lost = k.take(records, version); len(lost) > 0 {
				k.opts.Logger.Warn("the store has lost exceptions, which are put back", "exceptions", len(lost))
				err = k.opts.Store.Restore(ctx, lost)
			}
			if err == nil {
				k.version = version
			}
			if err == nil && len(lost) > 0 {
				continue
			}
		}
		if err != nil {
			k.metrics.errors.Inc()
		}
		return err
	}
	return nil
}

// hasLost reports whether a store with this version may have lost what is known.
func (k *Keeper) hasLost(version Version) bool {
	if version.Epoch == k.version.Epoch && version.Epoch != "" {
		return version.Count < k.version.Count
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.known) > 0
}

// take makes known what was loaded, and returns the records that the store has lost, which
// stay in force.
func (k *Keeper) take(records []Record, version Version) (lost []Record) {
	hasLost, now := k.hasLost(version), time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	before, ended := k.known, k.ended
	k.known, k.ended = make(map[string]*kept, len(records)), make(map[string]time.Time)
	for _, r := range records {
		was := before[r.ID]
		if was != nil && bytes.Equal(was.Body, r.Body) {
			k.known[r.ID] = was // with its uses
			continue
		}
		if until, over := ended[r.ID]; over {
			k.ended[r.ID] = until
			continue
		}
		e, err := r.read()
		switch {
		case err != nil:
			k.opts.Logger.Warn("an exception cannot be read and does not hold here, a newer version may have added it", "id", plaintext.Line(r.ID), "err", plaintext.Line(err.Error()))
		case !e.Until.After(now):
			k.ended[r.ID] = e.Until
			continue
		}
		k.keep(r, e)
	}
	if hasLost {
		for id, was := range before {
			if k.known[id] == nil {
				k.known[id] = was
				lost = append(lost, was.Record)
			}
		}
	}
	k.rebuild()
	return lost
}

// forgetAfter is how long the store has what has ended: the clocks of servers differ.
const forgetAfter = time.Minute

// forget removes from the store what ended that long ago, and returns how much. The caller
// holds k.storing.
func (k *Keeper) forget(ctx context.Context, after time.Duration) int {
	now := time.Now()
	var ids []string
	k.mu.Lock()
	for id, until := range k.ended {
		if now.Sub(until) >= after {
			ids = append(ids, id)
		}
	}
	k.mu.Unlock()
	if len(ids) == 0 {
		return 0
	}
	if err := k.opts.Store.Forget(ctx, ids); err != nil {
		k.opts.Logger.LogAttrs(ctx, slog.LevelDebug, "ended exceptions could not be forgotten", plain("err", err.Error()))
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		delete(k.ended, id)
	}
	return len(ids)
}
