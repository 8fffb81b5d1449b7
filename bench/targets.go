package main

import "fmt"

// target is a figure that was promised.
type target struct {
	name   string
	got    rounds
	most   float64
	format string // of both
}

func (t target) row() string {
	verdict := "reached"
	switch {
	case len(t.got) == 0:
		verdict = ""
	case !(t.got.median() <= t.most):
		verdict = "**missed**"
	}
	return fmt.Sprintf("| %s | <= "+t.format+" | %s | %s |", t.name, t.most, t.got.spread(t.format), verdict)
}

// targetsTable compares what was promised with what was measured.
func targetsTable(r *results) string {
	rows := []string{}
	for _, t := range r.targets() {
		rows = append(rows, t.row())
	}
	return table("| figure | to reach | measured | |", append(rows, r.Neighbours.row())...)
}

// targets are the promises that are bounds.
func (r *results) targets() []target {
	floor, floor10 := r.costOf(nameFloor, 1).Server, r.costOf(nameFloor, 10).Server
	memory, denied := r.costOf(nameMemory, 1), r.costOf(nameDenied, 1)
	redis1, redis3, redis10 := r.costOf(nameRedis, 1), r.costOf(nameRedis, 3), r.costOf(nameRedis, 10)
	var few, many ruleCount
	if n := len(r.Rules); n > 0 {
		few, many = r.Rules[0], r.Rules[n-1]
	}
	return []target{
		{"server CPU in floors, in memory, 1 limit", memory.Server.over(floor), 0.85, "%.2f"},
		{"server CPU in floors, Redis, 1 limit", redis1.Server.over(floor), 1, "%.2f"},
		{"server CPU in floors, Redis, 3 limits", redis3.Server.over(floor), 1.15, "%.2f"},
		{"server CPU in floors of 10 statuses, Redis, 10 limits", redis10.Server.over(floor10), 1.3, "%.2f"},
		{"Redis CPU per decision, 1 limit, µs", redis1.Redis, 6, "%.1f"},
		{"Redis CPU per decision, 3 limits, µs", redis3.Redis, 13, "%.1f"},
		{"Redis CPU per decision, 10 limits, µs", redis10.Redis, 30, "%.1f"},
		{"Redis calls per decision, 1 limit", redis1.Calls, 1, "%.3f"},
		{"Redis calls per decision, 3 limits", redis3.Calls, 1, "%.3f"},
		{"Redis calls per decision, 10 limits", redis10.Calls, 1, "%.3f"},
		{
			fmt.Sprintf("p99 at 3,000/s, 1 limit, Redis, ms (floor: %s)", r.latencyOf(nameFloor, usualRate).P99.in(milliseconds).show("%.2f")),
			r.latencyOf(nameRedis, usualRate).P99.in(milliseconds), 2.6, "%.2f",
		},
		{"key known to be over, Redis: server CPU in floors", denied.Server.over(floor), 0.85, "%.2f"},
		{"key known to be over: Redis calls per decision", denied.Calls, 0.01, "%.4f"},
		{fmt.Sprintf("Redis bytes per live counter (of its key: %s)", r.RedisMemory.KeyBytes.show("%.0f")), r.RedisMemory.BytesPerCounter, 110, "%.0f"},
		{"allocations in matching and spelling of keys", r.Allocations, 0, "%.0f"},
		{"start with 100,000 rules, seconds", many.StartSeconds, 1, "%.2f"},
		{"resident after that start, MiB", many.IdleBytes.in(mib), 150, "%.0f"},
		{"resident when 100,000 rules have been used under load, MiB", many.UsedBytes.in(mib), 150, "%.0f"},
		{"p99 at 3,000/s with 100,000 rules, in that of 10 rules", many.P99.over(few.P99), 1.2, "%.2f"},
		{"p99 while 100,000 rules are loaded anew, in that without", r.Reload.P99Reload.over(r.Reload.P99), 2, "%.2f"},
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
	return fmt.Sprintf("| %s | 100 %% | %.1f %% (%d of %d; of the noisy one %d of %d) | %s |", name,
		100*float64(n.Quiet.Admitted)/float64(n.Quiet.Asked), n.Quiet.Admitted, n.Quiet.Asked, n.Noisy.Admitted, n.Noisy.Asked, verdict)
}
