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

// reload is the effect of reloading 100,000 rules on the latency at the usual rate.
type reload struct {
	Seconds   rounds // time of one reload
	P99       rounds // latency without reloads, microseconds
	P99Reload rounds // latency during one reload after the other, microseconds
}

// reload measures the latency while rules are reloaded all the time, which is the
// worst case.
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
		// The first use of a rule after a start or a reload takes longer, and is not measured.
		if _, err := measured(ctx, b.everyValue(weir, rules)); err != nil {
			return err
		}
		quiet, err := measured(ctx, opts)
		if err != nil {
			return err
		}
		stop, stopped := make(chan struct{}), make(chan error, 1)
		go func() { stopped <- b.reloadUntil(stop, weir, text) }()
		longer := opts
		longer.Duration += atLeast // long enough for at least one complete reload
		busy, err := measured(ctx, longer)
		close(stop)
		if err := errors.Join(err, <-stopped); err != nil {
			return err
		}
		r.P99, r.P99Reload = append(r.P99, float64(quiet.Latency.P99)), append(r.P99Reload, float64(busy.Latency.P99))
	}
	return nil
}

// reloadUntil changes the rules and reloads them, again and again, until stop is closed.
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
