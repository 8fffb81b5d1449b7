package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"weir/internal/loadgen"
)

// scaled is what a decision costs when something grows.
type scaled struct {
	N             int
	Memory, Redis cost
}

// descriptors measures the cost against the number of descriptors of a request.
func (b *bench) descriptors(ctx context.Context) (err error) {
	b.results.Descriptors, err = b.scale(ctx, []int{1, 2, 5, 10, 20}, func(s *subject, n int) { s.descriptors = n })
	return err
}

// connections measures the cost against the number of connections.
func (b *bench) connections(ctx context.Context) (err error) {
	b.results.Connections, err = b.scale(ctx, []int{1, 4, 16, 64}, func(s *subject, n int) {
		s.change = func(opts *loadgen.Options) { opts.Connections = n }
	})
	return err
}

// scale measures the cost in memory and with Redis for each n.
func (b *bench) scale(ctx context.Context, ns []int, change func(s *subject, n int)) ([]scaled, error) {
	redis, err := b.redis()
	if err != nil {
		return nil, err
	}
	memory, err := b.weir("memory", rulesOf(20, plenty))
	if err != nil {
		return nil, err
	}
	weir, err := b.weir("redis", rulesOf(20, plenty), "REDIS_URL="+redis.address)
	if err != nil {
		return nil, err
	}
	var subjects []subject
	for _, n := range ns {
		for _, s := range []subject{
			{name: nameMemory, descriptors: 1, server: memory},
			{name: nameRedis, descriptors: 1, server: weir, redis: redis},
		} {
			change(&s, n)
			subjects = append(subjects, s)
		}
	}
	costs, err := b.costs(ctx, subjects)
	if err != nil {
		return nil, err
	}
	var all []scaled
	for i, n := range ns {
		all = append(all, scaled{n, costs[2*i], costs[2*i+1]})
	}
	return all, nil
}

// ruleCount is what a number of rules costs.
type ruleCount struct {
	Rules        int
	StartSeconds rounds // until the health check passes
	IdleBytes    int64  // resident after the start
	BusyBytes    int64  // resident under load
	CPU          rounds // of the server per decision, in memory, microseconds
	P99          rounds // at rulesRate, microseconds
}

const rulesRate = 3000

// manyRules writes n rules, each for a value of its own.
func manyRules(n int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "domain: %s\ndescriptors:\n", domain)
	for i := range n {
		fmt.Fprintf(&text, "  - {key: k0, value: user-%d, rate_limit: {unit: hour, requests_per_unit: %d}}\n", i, plenty)
	}
	return text.String()
}

// rules measures start, memory and decisions against the number of rules.
func (b *bench) rules(ctx context.Context) error {
	counts := []int{10, 10_000, 100_000}
	b.results.Rules = make([]ruleCount, len(counts))
	for range b.rounds {
		for i, n := range counts {
			c := &b.results.Rules[i]
			c.Rules = n
			start := time.Now()
			weir, err := b.weir(fmt.Sprintf("rules-%d", n), manyRules(n))
			if err != nil {
				return err
			}
			c.StartSeconds = append(c.StartSeconds, time.Since(start).Seconds())
			if err := b.addRules(ctx, c, weir); err != nil {
				return err
			}
			weir.stop()
		}
	}
	return nil
}

func (b *bench) addRules(ctx context.Context, c *ruleCount, weir *program) (err error) {
	if c.IdleBytes, err = weir.residentBytes(); err != nil {
		return err
	}
	opts := b.load(weir, 1)
	opts.Traffic.Keys = c.Rules
	result, err := measured(ctx, opts)
	if err != nil {
		return err
	}
	c.CPU = append(c.CPU, result.Processes[0].CPUPerRequest)
	opts.Rate, opts.Callers = rulesRate, 512
	if result, err = measured(ctx, opts); err != nil {
		return err
	}
	c.P99 = append(c.P99, float64(result.Latency.P99))
	c.BusyBytes, err = weir.residentBytes()
	return err
}
