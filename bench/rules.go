package main

import (
	"context"
	"fmt"
	"strings"
)

// ruleCount is the cost of a number of rules. All figures except the last two are from
// the same requests for every number.
type ruleCount struct {
	Rules        int
	StartSeconds rounds // time from the execution until the health check passes
	IdleBytes    rounds // resident memory after the start
	CPU          rounds // CPU time of the server per decision, with counters in memory, microseconds
	P99          rounds // latency at the usual rate, microseconds
	FirstP99     rounds // latency of requests that mostly use a rule for the first time
	UsedBytes    rounds // resident memory when all rules have been used
}

// manyRules returns n rules: one for any value, and the others for a value each. So
// for every n, every value has a rule and its own counter, and equal requests make
// the same number of counters.
func manyRules(n int) string {
	var text strings.Builder
	text.WriteString(rulesOf(1, plenty))
	for i := range n - 1 {
		fmt.Fprintf(&text, "  - {key: k0, value: user-%d, rate_limit: {unit: hour, requests_per_unit: %d}}\n", i, plenty)
	}
	return text.String()
}

// rules measures the start, the memory and the decisions against the number of rules.
func (b *bench) rules(ctx context.Context) error {
	b.results.Rules = []ruleCount{{Rules: 10}, {Rules: 10_000}, {Rules: 100_000}}
	for range b.rounds {
		if err := b.addRules(ctx, b.results.Rules); err != nil {
			return err
		}
		b.stopAll()
	}
	return nil
}

// addRules measures each number of rules in turn, on new servers.
func (b *bench) addRules(ctx context.Context, counts []ruleCount) error {
	servers := make([]*program, len(counts))
	for i := range counts {
		c := &counts[i]
		var err error
		if servers[i], err = b.weir(fmt.Sprintf("rules-%d", c.Rules), manyRules(c.Rules)); err != nil {
			return err
		}
		c.StartSeconds = append(c.StartSeconds, servers[i].startup.Seconds())
		if err := servers[i].addResident(&c.IdleBytes); err != nil {
			return err
		}
	}
	for _, measure := range []func(context.Context, *ruleCount, *program) error{b.rulesCPU, b.rulesP99, b.rulesFirstUse} {
		for i, server := range servers {
			if err := measure(ctx, &counts[i], server); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) rulesCPU(ctx context.Context, c *ruleCount, weir *program) error {
	return c.CPU.addCPU(ctx, b.load(weir, 1), weir)
}

func (b *bench) rulesP99(ctx context.Context, c *ruleCount, weir *program) error {
	return c.P99.addP99(ctx, b.planned(weir, usualRate))
}

// rulesFirstUse draws as many values as there are rules. It begins at the usual rate, at
// which 100,000 values take longer than a measurement. Then it goes on as fast as the
// server answers, until nearly all rules have been used.
func (b *bench) rulesFirstUse(ctx context.Context, c *ruleCount, weir *program) error {
	opts := b.planned(weir, usualRate)
	opts.Keys = c.Rules
	if err := c.FirstP99.addP99(ctx, opts); err != nil {
		return err
	}
	if _, err := measured(ctx, b.everyValue(weir, c.Rules)); err != nil {
		return err
	}
	return weir.addResident(&c.UsedBytes)
}
