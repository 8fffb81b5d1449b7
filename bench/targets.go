package main

import "fmt"

// target is a figure with an upper bound.
type target struct {
	name   string
	got    rounds
	most   float64
	format string // format of got and most
}

func (t target) row() string {
	verdict := "reached"
	switch {
	case len(t.got) == 0:
		verdict = ""
	case !(t.got.median() <= t.most):
		verdict = "**missed**"
	}
	return fmt.Sprintf("| %s | "+t.format+" | %s | %s |", t.name, t.most, t.got.spread(t.format), verdict)
}

const targetsHeader = "| figure | at most | measured | |"

// targetsTable compares the targets with the results.
func targetsTable(r *results) string {
	rows := []string{}
	for _, t := range r.targets() {
		rows = append(rows, t.row())
	}
	return table(targetsHeader, append(rows, r.Neighbours.row())...)
}

// targets returns all targets except those for Redis, see redisTargets.
func (r *results) targets() []target {
	memory, denied := r.costOf(nameMemory, "", 1), r.costOf(nameDenied, "", 1)
	var calls rounds
	for _, limits := range limitCounts {
		calls = append(calls, r.costOf(nameRedis, "", limits).Calls...)
	}
	var few, many ruleCount
	if n := len(r.Rules); n > 0 {
		few, many = r.Rules[0], r.Rules[n-1]
	}
	return []target{
		{"server CPU in floors, in memory, 1 limit", r.floors(memory), 0.85, "%.2f"},
		{"Redis calls per decision, 1 to 10 limits", calls, 1, "%.3f"},
		{"key known to be over, Redis: server CPU in floors", r.floors(denied), 0.85, "%.2f"},
		{"key known to be over: Redis calls per decision", denied.Calls, 0.01, "%.4f"},
		{"allocations in matching and spelling of keys", r.Allocations, 0, "%.0f"},
		{"start with 100,000 rules, seconds", many.StartSeconds, 1, "%.2f"},
		{"resident after that start, MiB", many.IdleBytes.in(mib), 150, "%.0f"},
		{"resident when all were used, MiB", many.UsedBytes.in(mib), 150, "%.0f"},
		{"p99 at 3,000/s: 100,000 rules relative to 10 rules", many.P99.over(few.P99), 1.2, "%.2f"},
		{"p99 while 100,000 rules are reloaded, relative to that without", r.Reload.P99Reload.over(r.Reload.P99), 2, "%.2f"},
	}
}

func (n neighbours) row() string {
	const name = "requests of 49 quiet users admitted beside a user at 300/s"
	if n.Quiet.Asked == 0 {
		return fmt.Sprintf("| %s | 100 %% | %s | |", name, notMeasured)
	}
	verdict := "reached"
	if n.Quiet.Admitted < n.Quiet.Asked {
		verdict = "**missed**"
	}
	return fmt.Sprintf("| %s | 100 %% | %.1f %% | %s |", name, 100*float64(n.Quiet.Admitted)/float64(n.Quiet.Asked), verdict)
}
