package main

import (
	"fmt"
	"slices"
)

// redisTarget is a target for Redis, or for a server that waits for Redis.
type redisTarget struct {
	target
	instructions rounds // instructions of Redis in the same unit, or nil if they are not compared
	why          string // obstacle, or result of an attempt
}

// isMissed reports whether the figure is too high, in time or in instructions, or is not a number.
func (t redisTarget) isMissed() bool {
	return len(t.got) > 0 && !(max(t.got.median(), t.instructions.median()) <= t.most)
}

func (t redisTarget) row() string {
	verdict, why, instructions := "reached", "", ""
	switch {
	case len(t.got) == 0:
		verdict = ""
	case t.isMissed():
		verdict, why = "**missed**", t.why
	}
	if t.instructions != nil {
		instructions = t.instructions.show(t.format)
	}
	return fmt.Sprintf("| %s | "+t.format+" | %s | %s | %s | %s |", t.name, t.most, t.got.spread(t.format), instructions, verdict, why)
}

// redisTargetsTable compares the targets for Redis with the results.
func redisTargetsTable(r *results) string {
	rows, said := []string{}, map[string]bool{}
	for _, t := range r.redisTargets() {
		if t.isMissed() && said[t.why] {
			t.why = "as above"
		}
		said[t.why] = said[t.why] || t.isMissed()
		rows = append(rows, t.row())
	}
	return table("| figure | at most | CPU time | instructions | | tried, or in the way |", rows...)
}

// These are the reasons for missed targets.
const (
	whyBusy    = "CPU time differs from run to run by a third, if the machine has other work; see its instructions."
	whySingle  = "Redis' time and two arguments take 13,000 instructions."
	whySliding = "Two numbers decide where the least script needs one."
	whyBuckets = "Text of three numbers and a new expiry. To keep the expiry would save 14 %, but forget buckets whose limit changed."
	whyHot     = "Sockets. The instructions are 0.13 of what they were."
	whyWakeups = "[Threads that sleep](#sleeping-threads). Callers that call Redis themselves save 10 to 15 %, but could not leave."
	whyServer  = "Two calls in flight made 0.8 of the decisions; calls without `Gosched` cost the same."
	whyRules   = "Rules lie in memory that no cache holds."
	whyLatency = "A round trip more."
	whyBytes   = "[The allocator rounds up](#bytes-of-a-counter-in-redis)."
	whyCluster = "The least script misses it, too. 32 tags would save a quarter, but load ten primaries unevenly."
)

// hotKeyMost is 0.35 of the former cost of 1.31 least scripts, when each request of a
// batch was decided separately.
const hotKeyMost = 0.46

// clusterTargets are bounds for a cluster, by number of limits, relative to one Redis in
// the same run. Originally, when each slot had its own calls, a cluster made 0.32, 0.17
// and 0.15 of the decisions that one Redis makes now. One Redis then took 1.40, 1.50 and
// 1.63 times its present CPU time.
var clusterTargets = []struct {
	limits      int
	redis, slow float64
}{
	{1, 1.5 * 1.40, 1 / (2 * 0.315)},
	{3, 1.8 * 1.50, 1 / (2.5 * 0.165)},
	{10, 2 * 1.63, 1 / (3 * 0.149)},
}

// redisTargets returns the targets for Redis, and for servers that wait for it.
func (r *results) redisTargets() (all []redisTarget) {
	for _, t := range []struct {
		name, load string
		limits     int
		most       float64
		why        string
	}{
		{"1 limit", "", 1, 1.4, whyBusy},
		{"3 limits", "", 3, 1.3, whyBusy},
		{"10 limits", "", 10, 1.25, whyBusy},
		{loadLow, loadLow, 1, 1.15, whySingle},
		{loadMiddle, loadMiddle, 1, 1.15, whySingle},
		{"sliding windows, 3 limits", loadSliding, 3, 1.7, whySliding},
		{"token buckets, 3 limits", loadBuckets, 3, 1.7, whyBuckets},
		{loadHot, loadHot, 1, hotKeyMost, whyHot},
	} {
		c := r.costOf(nameRedis, t.load, t.limits)
		all = append(all, redisTarget{target{"Redis, " + t.name, r.leastScripts(c), t.most, "%.2f"}, r.leastInstructions(c), t.why})
	}
	for _, t := range []struct {
		name, load string
		limits     int
		most       float64
		why        string
	}{
		{loadLow, loadLow, 1, 0.95, whyWakeups},
		{"1 limit", "", 1, 0.9, whyServer},
		{"3 limits", "", 3, 0.9, whyServer},
		{"10 limits", "", 10, 0.9, whyServer},
		{loadRules + " in use", loadRules, 1, 1.1, whyRules},
	} {
		all = append(all, redisTarget{target{"server, " + t.name, r.floors(r.costOf(nameRedis, t.load, t.limits)), t.most, "%.2f"}, nil, t.why})
	}
	floor, redis := r.latencyOf(nameFloor, usualRate), r.latencyOf(nameRedis, usualRate)
	all = append(all,
		redisTarget{target{"p50 at 3,000/s in the floor's", redis.P50.over(floor.P50), 1.6, "%.2f"}, nil, whyLatency},
		redisTarget{target{"p99 at 3,000/s in the floor's", redis.P99.over(floor.P99), 1.4, "%.2f"}, nil, whyLatency},
		redisTarget{target{"bytes of Redis per counter", r.RedisMemory.BytesPerCounter, 110, "%.0f"}, nil, whyBytes})
	for _, t := range clusterTargets {
		cluster, one := r.clusterCost(nameCluster, t.limits), r.clusterCost(nameRedis, t.limits)
		all = append(all,
			redisTarget{target{fmt.Sprintf("cluster, limits: %d, Redis", t.limits), cluster.Redis.over(one.Redis), t.redis, "%.2f"}, cluster.Instructions.over(one.Instructions), whyCluster},
			redisTarget{target{fmt.Sprintf("cluster, limits: %d, time", t.limits), one.Answers.over(cluster.Answers), t.slow, "%.2f"}, nil, whyCluster})
	}
	return all
}

// leastInstructions is like leastScripts, for instructions.
func (r *results) leastInstructions(c cost) rounds {
	return c.Instructions.over(r.wayOf(nameScript, c).Instructions)
}

// clusterCost returns the cost of a subject in the experiment cluster.
func (r *results) clusterCost(name string, limits int) cost {
	i := slices.IndexFunc(r.Cluster, func(c cost) bool { return c.Name == name && c.Descriptors == limits })
	if i < 0 {
		return cost{}
	}
	return r.Cluster[i]
}
