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

// reload is how a reload of many rules shows in the latency.
type reload struct {
	Rules      int
	Rate       float64
	Seconds    rounds // of one reload
	P99        rounds // without a reload, microseconds
	P99Reload  rounds // over a time in which one reload after the other runs
	Max        rounds
	MaxReload  rounds
	BusyBytes  int64 // resident after the reloads
	ReloadsRun int
}

// reload measures the latency while rules are loaded anew, over and over, which
// is the worst that reloads can do.
func (b *bench) reload(ctx context.Context) error {
	r := &b.results.Reload
	*r = reload{Rules: 100_000, Rate: 3000}
	text := manyRules(r.Rules)
	weir, err := b.weir("reload", text)
	if err != nil {
		return err
	}
	opts := b.load(weir, 1)
	opts.Traffic.Keys, opts.Rate, opts.Callers = r.Rules, r.Rate, 512
	for range b.rounds {
		quiet, err := measured(ctx, opts)
		if err != nil {
			return err
		}
		stop, stopped := make(chan struct{}), make(chan error, 1)
		go func() { stopped <- b.reloadUntil(stop, weir, text) }()
		busy, err := measured(ctx, opts)
		close(stop)
		if err := errors.Join(err, <-stopped); err != nil {
			return err
		}
		r.P99, r.P99Reload = append(r.P99, float64(quiet.Latency.P99)), append(r.P99Reload, float64(busy.Latency.P99))
		r.Max, r.MaxReload = append(r.Max, float64(quiet.Latency.Max)), append(r.MaxReload, float64(busy.Latency.Max))
	}
	r.BusyBytes, err = weir.residentBytes()
	return err
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
		r.ReloadsRun++
		changed := fmt.Sprintf("%s  - key: reload-%d\n", text, r.ReloadsRun)
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
