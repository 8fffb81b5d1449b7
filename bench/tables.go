package main

import "fmt"

func machineTable(r *results) []string {
	m := r.Machine
	return []string{fmt.Sprintf("%s, %d cores, %s, %s, Redis %s.", m.CPU, m.Cores, m.Kernel, m.Go, m.Redis)}
}

// find returns the cost of a subject.
func (r *results) find(name string, descriptors int) cost {
	for _, c := range r.Cost {
		if c.Name == name && c.Descriptors == descriptors {
			return c
		}
	}
	return cost{}
}

// target is a figure that was promised.
type target struct {
	name   string
	got    float64
	most   float64
	format string // of both
}

// targetsTable compares what was promised with what was measured.
func targetsTable(r *results) []string {
	floor, floor10 := r.find(nameFloor, 1).Server, r.find(nameFloor, 10).Server
	server := func(name string, n int, floor rounds) float64 { return r.find(name, n).Server.over(floor).median() }
	redis := func(n int) cost { return r.find(nameRedis, n) }
	denied := r.find(nameDenied, 1)
	var p99, p99Floor rounds
	for _, l := range r.Latency {
		if l.Rate == 3000 && l.Name == nameRedis {
			p99 = l.P99
		}
		if l.Rate == 3000 && l.Name == nameFloor {
			p99Floor = l.P99
		}
	}
	var many, few ruleCount
	if n := len(r.Rules); n > 0 {
		few, many = r.Rules[0], r.Rules[n-1]
	}
	const mib = 1 << 20
	rows := []string{"| figure | to reach | measured | |", "|---|---|---|---|"}
	for _, t := range []target{
		{"server CPU in floors, in memory, 1 limit", server(nameMemory, 1, floor), 0.85, "%.2f"},
		{"server CPU in floors, Redis, 1 limit", server(nameRedis, 1, floor), 1, "%.2f"},
		{"server CPU in floors, Redis, 3 limits", server(nameRedis, 3, floor), 1.15, "%.2f"},
		{"server CPU in floors of 10 statuses, Redis, 10 limits", server(nameRedis, 10, floor10), 1.3, "%.2f"},
		{"Redis CPU per decision, 1 limit, µs", redis(1).Redis.median(), 6, "%.1f"},
		{"Redis CPU per decision, 3 limits, µs", redis(3).Redis.median(), 13, "%.1f"},
		{"Redis CPU per decision, 10 limits, µs", redis(10).Redis.median(), 30, "%.1f"},
		{"Redis calls per decision, 1 limit", redis(1).Calls.median(), 1, "%.3f"},
		{"Redis calls per decision, 10 limits", redis(10).Calls.median(), 1, "%.3f"},
		{fmt.Sprintf("p99 at 3,000/s, 1 limit, Redis, ms (floor %.2f ms)", p99Floor.median()/1000), p99.median() / 1000, 2.6, "%.2f"},
		{"key known to be over, Redis: server CPU in floors", denied.Server.over(floor).median(), 0.85, "%.2f"},
		{"key known to be over: Redis calls per decision", denied.Calls.median(), 0.01, "%.4f"},
		{"Redis bytes per live counter, key of 31 bytes", float64(redis(1).Bytes), 110, "%.0f"},
		{"start with 100,000 rules, seconds", many.StartSeconds.median(), 1, "%.2f"},
		{"resident after that start, MiB", float64(many.IdleBytes) / mib, 150, "%.0f"},
		{"resident with 100,000 rules under load, MiB", float64(many.BusyBytes) / mib, 150, "%.0f"},
		{"p99 at 3,000/s with 100,000 rules, in that of 10 rules", many.P99.over(few.P99).median(), 1.2, "%.2f"},
	} {
		verdict := "reached"
		if !(t.got <= t.most) {
			verdict = "**missed**"
		}
		rows = append(rows, fmt.Sprintf("| %s | <= "+t.format+" | "+t.format+" | %s |", t.name, t.most, t.got, verdict))
	}
	n := r.Neighbours
	return append(rows, fmt.Sprintf("| requests of 49 quiet users admitted beside a user at 300/s | 100 %% | %.1f %% (%d of %d; of the noisy one %d of %d) | |",
		100*float64(n.Quiet.Admitted)/float64(max(n.Quiet.Asked, 1)), n.Quiet.Admitted, n.Quiet.Asked, n.Noisy.Admitted, n.Noisy.Asked))
}

func costTable(r *results) []string {
	rows := []string{
		"| counters | limits | server, µs | in floors | Redis, µs | calls per decision | answers per second |",
		"|---|---|---|---|---|---|---|",
	}
	for _, c := range r.Cost {
		floor := r.find(nameFloor, 1).Server
		if c.Descriptors == 10 {
			floor = r.find(nameFloor, 10).Server
		}
		redis, calls := "", ""
		if c.Redis != nil {
			redis, calls = fmt.Sprintf("%.1f", c.Redis.median()), fmt.Sprintf("%.3f", c.Calls.median())
		}
		rows = append(rows, fmt.Sprintf("| %s | %d | %.1f | %.2f | %s | %s | %.0f |",
			c.Name, c.Descriptors, c.Server.median(), c.Server.over(floor).median(), redis, calls, c.Answers.median()))
	}
	return rows
}

func latencyTable(r *results) []string {
	rows := []string{"| | requests per second | p50, ms | p99, ms |", "|---|---|---|---|"}
	for _, l := range r.Latency {
		rows = append(rows, fmt.Sprintf("| %s | %.0f | %.2f | %.2f |", l.Name, l.Rate, l.P50.median()/1000, l.P99.median()/1000))
	}
	return rows
}

func growthTable(r *results) []string {
	rows := []string{"| | server in memory, µs | server with Redis, µs | Redis, µs | calls per decision |", "|---|---|---|---|---|"}
	add := func(what string, all []scaled) {
		for _, s := range all {
			rows = append(rows, fmt.Sprintf("| %d %s | %.1f | %.1f | %.1f | %.3f |",
				s.N, what, s.Memory.Server.median(), s.Redis.Server.median(), s.Redis.Redis.median(), s.Redis.Calls.median()))
		}
	}
	add("descriptors", r.Descriptors)
	add("connections", r.Connections)
	return rows
}

func rulesTable(r *results) []string {
	rows := []string{
		"| rules | start, s | resident, MiB | resident under load, MiB | server, µs | p99 at 3,000/s, ms |",
		"|---|---|---|---|---|---|",
	}
	for _, c := range r.Rules {
		rows = append(rows, fmt.Sprintf("| %d | %.2f | %.0f | %.0f | %.1f | %.2f |", c.Rules, c.StartSeconds.median(),
			float64(c.IdleBytes)/(1<<20), float64(c.BusyBytes)/(1<<20), c.CPU.median(), c.P99.median()/1000))
	}
	return rows
}

func reloadTable(r *results) []string {
	l := r.Reload
	return []string{
		"| | p99, ms | longest, ms |",
		"|---|---|---|",
		fmt.Sprintf("| no reload | %.2f | %.1f |", l.P99.median()/1000, l.Max.median()/1000),
		fmt.Sprintf("| reloads without a break, %.2f s each | %.2f | %.1f |", l.Seconds.median(), l.P99Reload.median()/1000, l.MaxReload.median()/1000),
	}
}

func countersTable(r *results) []string {
	c := r.Counters
	return []string{
		"| live counters | bytes per counter | made per second | p99 before, ms | p99, ms | p99.9, ms | longest pause of the collector, ms |",
		"|---|---|---|---|---|---|---|",
		fmt.Sprintf("| %d | %.0f | %.0f | %.2f | %.2f | %.2f | %.2f |", c.Live, c.BytesPerCounter, c.Fill,
			c.P99Few.median()/1000, c.P99.median()/1000, c.P999.median()/1000, c.LongestPause*1000),
	}
}
