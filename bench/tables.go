package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// table returns a Markdown table.
func table(header string, rows ...string) string {
	if len(rows) == 0 {
		return notMeasured
	}
	line := strings.Repeat("|---", strings.Count(header, "|")-1) + "|"
	return compact.Replace(strings.Join(append([]string{header, line}, rows...), "\n"))
}

// compact removes the spaces from tables, so that they look as in the other documents.
var compact = strings.NewReplacer(" | ", "|", "| ", "|", " |", "|")

// machineLine names the machine of the figures, the number of rounds (by experiment,
// if it differs), and the experiments that ran on another machine.
func machineLine(r *results) string {
	text := r.Machine.String() + "."
	names := map[length][]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Lengths)) {
		names[r.Lengths[name]] = append(names[r.Lengths[name]], name)
	}
	for _, l := range slices.SortedFunc(maps.Keys(names), func(a, b length) int { return cmp.Compare(names[a][0], names[b][0]) }) {
		of := ""
		if len(names) > 1 {
			of = " of " + strings.Join(names[l], ", ")
		}
		text += fmt.Sprintf("\nRounds%s: %s.", of, l)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Elsewhere)) {
		text += fmt.Sprintf("\nOn another machine, not to be compared: %s on %s.", name, r.Elsewhere[name])
	}
	return text
}

// costOf returns the cost of a subject under a load. "" is the usual load.
func (r *results) costOf(name, load string, descriptors int) cost {
	for _, c := range r.Cost {
		if c.Name == name && c.Load == load && c.Descriptors == descriptors {
			return c
		}
	}
	return cost{}
}

// floors returns the cost of c's server relative to the floor at the same rate. The floor
// answers with 1 or 10 statuses: a few statuses cost no more than one.
func (r *results) floors(c cost) rounds {
	statuses := 1
	if c.Descriptors == 10 {
		statuses = 10
	}
	return c.Server.over(r.costOf(nameFloor, c.openLoad(), statuses).Server)
}

// wayOf returns the cost of a way with as many hits as c, at the same rate.
func (r *results) wayOf(name string, c cost) cost { return r.costOf(name, c.openLoad(), c.Descriptors) }

// openLoad returns the load of c if it is an open loop, or "" for the usual load.
func (c cost) openLoad() string {
	for _, open := range openLoads {
		if open.load == c.Load {
			return c.Load
		}
	}
	return ""
}

// latencyOf returns the latency at a rate.
func (r *results) latencyOf(name string, rate float64) latency {
	for _, l := range r.Latency {
		if l.Name == name && l.Rate == rate {
			return l
		}
	}
	return latency{}
}

// costTable shows the costs of servers, without the costs with Zipf keys, which are in
// docs/scale.md.
func costTable(r *results) string {
	var rows []string
	for _, c := range r.Cost {
		if c.Server == nil || c.Load == loadZipf {
			continue
		}
		redis := " | | | | |"
		if c.Redis != nil {
			instructions, least := "", "" // not every machine can count them
			if c.Instructions != nil {
				instructions, least = c.Instructions.show("%.0f"), r.leastInstructions(c).show("%.2f")
			}
			redis = fmt.Sprintf(" %s | %s | %s | %s | %s |", c.Redis.show("%.1f"), r.leastScripts(c).show("%.2f"), instructions, least, c.Calls.show("%.3f"))
		}
		rows = append(rows, fmt.Sprintf("| %s | %d | %s | %s |%s %s |", c.title(), c.Descriptors,
			c.Server.show("%.1f"), r.floors(c).show("%.2f"), redis, c.Answers.show("%.0f")))
	}
	return table("| counters | limits | server, µs | in floors | Redis, µs | in least scripts | instructions | in least scripts | calls per decision | answers per second |", rows...)
}

// title returns the subject and its load.
func (c cost) title() string {
	if c.Load == "" {
		return c.Name
	}
	return c.Name + ", " + c.Load
}

// waysTable shows the least work that counting takes in Redis.
func waysTable(r *results) string {
	var rows []string
	for _, c := range r.Cost {
		if c.Name != nameScript {
			continue
		}
		pipeline := fmt.Sprint(usualBatch)
		if c.Load != "" {
			pipeline = "1, at " + c.Load
		}
		row := fmt.Sprintf("| %s | %d |", pipeline, c.Descriptors)
		for _, w := range ways {
			row += fmt.Sprintf(" %s |", r.wayOf(w.name, c).Redis.show("%.1f"))
		}
		rows = append(rows, row)
	}
	return table("| decisions in a pipeline | limits | "+nameIncrBy+" | "+nameExpire+" | "+nameScript+" |", rows...)
}

// leastScripts returns the cost of c's Redis relative to the least script.
func (r *results) leastScripts(c cost) rounds { return c.Redis.over(r.wayOf(nameScript, c).Redis) }

func tuningTable(r *results) string {
	var rows []string
	for _, c := range r.Tuning {
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", c.Name, c.Server.show("%.1f"), c.Server.over(r.Tuning[0].Server).spread("%.2f")))
	}
	return table("| counters | server, µs | in floors |", rows...)
}

func latencyTable(r *results) string {
	var rows []string
	for _, l := range r.Latency {
		if l.Name != nameFloor {
			continue
		}
		row := fmt.Sprintf("| %.0f |", l.Rate)
		for _, name := range []string{nameFloor, nameMemory, nameRedis} {
			at := r.latencyOf(name, l.Rate)
			row += fmt.Sprintf(" %s | %s |", at.P50.in(milliseconds).show("%.2f"), at.P99.in(milliseconds).show("%.2f"))
		}
		rows = append(rows, row)
	}
	return table("| requests per second | floor: p50, ms | p99 | memory: p50 | p99 | Redis: p50 | p99 |", rows...)
}

func descriptorsTable(r *results) string { return scaledTable("descriptors", r.Descriptors) }

func connectionsTable(r *results) string { return scaledTable("connections", r.Connections) }

func scaledTable(what string, all []scaled) string {
	var rows []string
	for _, s := range all {
		floor := s.Floor.Server
		rows = append(rows, fmt.Sprintf("| %d | %s | %s | %s | %s | %s | %s | %s |", s.N, floor.show("%.1f"),
			s.Memory.Server.show("%.1f"), s.Memory.Server.over(floor).show("%.2f"),
			s.Redis.Server.show("%.1f"), s.Redis.Server.over(floor).show("%.2f"), s.Redis.Redis.show("%.1f"), s.Redis.Calls.show("%.3f")))
	}
	return table("| "+what+" | floor, µs | server in memory, µs | in floors | server with Redis, µs | in floors | Redis, µs | calls per decision |", rows...)
}

func rulesTable(r *results) string {
	var rows []string
	for _, c := range r.Rules {
		rows = append(rows, fmt.Sprintf("| %d | %s | %s | %s | %s | %s | %s |", c.Rules, c.StartSeconds.show("%.2f"), c.IdleBytes.in(mib).show("%.0f"),
			c.CPU.show("%.1f"), c.P99.in(milliseconds).show("%.2f"), c.FirstP99.in(milliseconds).show("%.2f"), c.UsedBytes.in(mib).show("%.0f")))
	}
	return table("| rules | start, s | resident, MiB | server, µs | p99 at 3,000/s, ms | p99 of first use, ms | resident when all were used, MiB |", rows...)
}

func countersTable(r *results) string {
	c := r.Counters
	if c.Live == 0 {
		return notMeasured
	}
	return table("| live counters | bytes per counter | made per second | p99 with few, ms | p99, ms | p99.9, ms | longest pause of the collector, ms |",
		fmt.Sprintf("| %d | %.0f | %.0f | %s | %s | %s | %.2f |", c.Live, c.BytesPerCounter, c.Fill, c.P99Few.in(milliseconds).spread("%.2f"),
			c.P99.in(milliseconds).spread("%.2f"), c.P999.in(milliseconds).spread("%.2f"), c.LongestPause*1000))
}
