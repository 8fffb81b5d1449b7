package main

import (
	"fmt"
	"math"
)

// inUse is the maximum share of a processor that should be in use: a busier processor
// makes calls wait.
const inUse = 0.7

// limitCounts are the numbers of limits of the compared requests.
var limitCounts = []int{1, 3, 10}

// capacityTable shows the capacity of one Redis and of one core of Weir.
func capacityTable(r *results) string {
	var rows []string
	add := func(keys, load string, limits int) {
		c := r.costOf(nameRedis, load, limits)
		if c.Redis == nil {
			return
		}
		rows = append(rows, fmt.Sprintf("| %d | %s | %s | %s | %s | %s | %s |", limits, keys, c.Redis.show("%.1f"), c.Redis.perSecond(),
			c.Server.show("%.1f"), c.Server.perSecond(), c.Bytes.show("%.0f")))
	}
	for _, limits := range limitCounts {
		add("uniform", "", limits)
		add("Zipf", loadZipf, limits)
	}
	add("one hot key", loadHot, 1)
	return table("| limits | keys | Redis, µs | decisions/s of one Redis | Weir, µs | decisions/s of one core of Weir | bytes to and from Redis |", rows...)
}

// machinesTable shows the machines that many decisions need.
func machinesTable(r *results) string {
	var rows []string
	for _, decisions := range []float64{100_000, 1_000_000} {
		for _, limits := range limitCounts {
			c := r.costOf(nameRedis, "", limits)
			if c.Redis == nil {
				continue
			}
			rows = append(rows, fmt.Sprintf("| %.0f | %d | %.0f | %.0f | %.1f |", decisions, limits,
				processors(decisions, c.Redis), processors(decisions, c.Server), decisions*c.Bytes.median()*8/1e9))
		}
	}
	return table("| decisions/s | limits | Redis primaries | cores of Weir | network of Redis, Gbit/s |", rows...)
}

// processors returns the number of processors that are needed for a number of decisions
// a second. each is the CPU time of a decision in microseconds.
func processors(decisions float64, each rounds) float64 {
	return math.Ceil(decisions * each.median() / 1e6 / inUse)
}

// perSecond returns the number of decisions that fill a second, to the nearest hundred.
func (r rounds) perSecond() string { return fmt.Sprintf("%.0f", math.Round(1e4/r.median())*100) }

// keysTable shows the memory of counters in Redis by the length of their keys.
func keysTable(r *results) string {
	var rows []string
	for _, k := range r.RedisMemory.ByKey {
		rows = append(rows, fmt.Sprintf("| %d | %.0f | %.0f |", k.KeyBytes, k.Usage, k.Used))
	}
	return table("| bytes of the key | `MEMORY USAGE` | bytes per counter |", rows...)
}
