package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// reload is how a reload of 100,000 rules shows in the latency at the usual rate.
type reload struct {
	Seconds   rounds // of one reload
	P99       rounds // without a reload, microseconds
	P99Reload rounds // over a time in which one reload after the other runs
}

// reload measures the latency while rules are loaded over and over, which
// is the worst that reloads can do.
func (b *bench) reload(ctx context.Context) error {
	const rules, atLeast = 100_000, 15 * time.Second
	b.results.Reload = reload{}
	r := &b.results.Reload
	text := manyRules(rules)
	weir, err := b.weir("reload", text)
	if err != nil {
		return err
	}
	opts := b.planned(weir, usualRate)
	opts.Keys = rules
	for range b.rounds {
		// What the first use of a rule takes, after a start or a reload, is not usual.
		if _, err := measured(ctx, b.everyValue(weir, rules)); err != nil {
			return err
		}
		quiet, err := measured(ctx, opts)
		if err != nil {
			return err
		}
		stop, stopped := make(chan struct{}), make(chan error, 1)
		go func() { stopped <- b.reloadUntil(stop, weir, text) }()
		whole := opts
		whole.Duration += atLeast // so that all of a reload is measured, its end and what comes after it
		busy, err := measured(ctx, whole)
		close(stop)
		if err := errors.Join(err, <-stopped); err != nil {
			return err
		}
		r.P99, r.P99Reload = append(r.P99, float64(quiet.Latency.P99)), append(r.P99Reload, float64(busy.Latency.P99))
	}
	return nil
}

// reloadUntil changes the rules and has them loaded, again and again.
func (b *bench) reloadUntil(stop <-chan struct{}, weir *program, text string) error {
	r := &b.results.Reload
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		changed := fmt.Sprintf("%s  - key: reload-%d\n", text, len(r.Seconds))
		if err := os.WriteFile(filepath.Join(b.dir, "reload", "rules.yaml"), []byte(changed), 0o600); err != nil {
			return err
		}
		start := time.Now()
		response, err := http.Post("http://"+weir.debug+"/-/reload", "", nil)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("reloading: %s", response.Status)
		}
		r.Seconds = append(r.Seconds, time.Since(start).Seconds())
	}
}
