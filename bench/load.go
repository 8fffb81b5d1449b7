package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	loadgen "weir/internal/offline/bench"
)

const domain = "bench"

// plenty is an amount that no run uses up.
const plenty int64 = 4_000_000_000

// mostDescriptors is the maximum number of descriptors of a request.
const mostDescriptors = 20

// usualRate is the usual rate of open loops, in requests per second.
const usualRate = 3000

// rulesOf returns rules for the descriptor keys k0, k1 and so on. Each value has its
// own counter.
func rulesOf(descriptors int, amount int64) string {
	return rulesBy("fixed_window", descriptors, amount)
}

// rulesBy is like rulesOf, with limits of the given algorithm.
func rulesBy(algorithm string, descriptors int, amount int64) string {
	var text strings.Builder
	fmt.Fprintf(&text, "domain: %s\ndescriptors:\n", domain)
	for i := range descriptors {
		fmt.Fprintf(&text, "  - key: k%d\n    rate_limit: {unit: hour, requests_per_unit: %d, algorithm: %s}\n", i, amount, algorithm)
	}
	return text.String()
}

// descriptorsOf returns n descriptors for these rules.
func descriptorsOf(n int) [][]loadgen.Entry {
	var all [][]loadgen.Entry
	for i := range n {
		all = append(all, []loadgen.Entry{{Key: fmt.Sprintf("k%d", i), Value: "user-{}"}})
	}
	return all
}

// load returns the usual load: a closed loop of 64 callers on 4 connections, with
// 1,000 values. The warm-up uses each value several times.
func (b *bench) load(p *program, descriptors int) loadgen.Options {
	warmup := min(time.Second/2, b.seconds)
	return loadgen.Options{
		Servers: []string{p.address}, Connections: 4, Callers: 64,
		Warmup: warmup, Duration: warmup + b.seconds,
		Traffic: loadgen.Traffic{Domain: domain, Descriptors: descriptorsOf(descriptors), Keys: 1000},
	}
}

// planned returns an open loop for one limit.
func (b *bench) planned(p *program, rate float64) loadgen.Options {
	opts := b.load(p, 1)
	opts.Rate, opts.Callers = rate, 512
	return opts
}

// everyValue returns a load that draws each value five times on average. Seven in a
// thousand values are never drawn.
func (b *bench) everyValue(p *program, values int) loadgen.Options {
	opts := b.load(p, 1)
	opts.Warmup, opts.Duration, opts.Requests = 0, 5*time.Minute, 5*int64(values)
	opts.Keys = values
	return opts
}

// measured runs a load that must not fail.
func measured(ctx context.Context, opts loadgen.Options) (*loadgen.Result, error) {
	result, err := loadgen.Run(ctx, opts)
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case result.Unsent > 0:
		return nil, fmt.Errorf("%d requests that were planned could not be sent", result.Unsent)
	case result.Failed > 0:
		return nil, fmt.Errorf("%d requests failed, the last by: %s", result.Failed, result.LastError)
	}
	return result, nil
}

// warmedUp runs the warm-up of a load, and returns the load without it.
func warmedUp(ctx context.Context, opts loadgen.Options) (loadgen.Options, error) {
	warmup := opts
	warmup.Duration, warmup.Warmup = opts.Warmup, 0
	_, err := measured(ctx, warmup)
	opts.Duration, opts.Warmup = opts.Duration-opts.Warmup, 0
	return opts, err
}

// measuredCPU runs a load without a warm-up, which must not fail. It returns the CPU time
// of p for each answer, in microseconds.
func measuredCPU(ctx context.Context, opts loadgen.Options, p *program) (*loadgen.Result, float64, error) {
	before, err := p.stat()
	if err != nil {
		return nil, 0, err
	}
	result, err := measured(ctx, opts)
	if err != nil {
		return nil, 0, err
	}
	after, err := p.stat()
	return result, (after.CPUTime() - before.CPUTime()) * 1e6 / float64(result.Answered), err
}

// addCPU runs a load, and adds the CPU time of p for each answer, in microseconds.
func (r *rounds) addCPU(ctx context.Context, opts loadgen.Options, p *program) error {
	opts, err := warmedUp(ctx, opts)
	if err != nil {
		return err
	}
	_, cpu, err := measuredCPU(ctx, opts, p)
	*r = append(*r, cpu)
	return err
}

// addP99 runs a load, and adds its p99, in microseconds.
func (r *rounds) addP99(ctx context.Context, opts loadgen.Options) error {
	result, err := measured(ctx, opts)
	if err != nil {
		return err
	}
	*r = append(*r, float64(result.Latency.P99))
	return nil
}
