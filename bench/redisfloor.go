package main

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	loadgen "weir/internal/offline/bench"
)

// way is a way to count in Redis without limits. The cost of Redis with a limiter is a
// multiple of the cost of the least script, so that figures from different machines can
// be compared.
type way struct {
	name string
	// add adds one hit on each key to the pipeline.
	add func(c *redisConn, script string, keys []string)
	// replies returns the number of lines in the replies to these hits.
	replies func(keys int) int
}

// These are the names of the ways in the tables.
const (
	nameIncrBy = "INCRBY"
	nameExpire = "INCRBY, EXPIRE"
	nameScript = "least script"
)

var ways = []*way{
	{nameIncrBy, func(c *redisConn, _ string, keys []string) {
		for _, key := range keys {
			c.add("INCRBY", key, "1")
		}
	}, func(keys int) int { return keys }},
	{nameExpire, func(c *redisConn, _ string, keys []string) {
		for _, key := range keys {
			c.add("INCRBY", key, "1")
			c.add("EXPIRE", key, "3600")
		}
	}, func(keys int) int { return 2 * keys }},
	{nameScript, func(c *redisConn, script string, keys []string) {
		c.add(append([]string{"EVALSHA", script, fmt.Sprint(len(keys))}, keys...)...)
	}, func(keys int) int { return keys + 1 }},
}

// leastScript is the smallest script that decides: it only reads, compares and counts.
//
//go:embed least.lua
var leastScript string

// usualBatch is the number of decisions that share a pipeline in a closed loop, as with
// Weir under the usual load.
const usualBatch = 22

// waysOf returns all ways as subjects, for decisions with the given number of hits, beside
// the floor under the same load. rate is the rate of an open loop, or 0 for a closed loop.
func (b *bench) waysOf(s servers, hits int, load string, rate float64) (subjects []subject) {
	for _, w := range ways {
		subjects = append(subjects, subject{name: w.name, load: load, descriptors: hits, redis: s.redises(), server: s.floor, way: w, measure: b.addWay, rate: rate})
	}
	return subjects
}

// besideFloor puts the load of a subject on the floor until stop is called. With Weir,
// Redis shares processors and their caches with a server and its load. Alone on the
// machine, it would need a third less time for the same instructions.
func (b *bench) besideFloor(ctx context.Context, s subject) (stop func()) {
	load := b.load(s.server, s.descriptors)
	if s.rate > 0 {
		load = b.planned(s.server, s.rate)
	}
	load.Duration = time.Hour // until stop is called
	ctx, cancel := context.WithCancel(ctx)
	var floor sync.WaitGroup
	floor.Go(func() { _, _ = loadgen.Run(ctx, load) })
	return func() { cancel(); floor.Wait() }
}

// addWay measures a way on a Redis that has no other load.
func (b *bench) addWay(ctx context.Context, c *cost, s subject) error {
	defer b.besideFloor(ctx, s)()
	conn, err := s.redis[0].redisConn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	keys, err := conn.counters(s.descriptors)
	if err != nil {
		return err
	}
	conn.add("SCRIPT", "LOAD", leastScript)
	script, err := conn.send(2) // a bulk string: its length and its text
	if err != nil {
		return err
	}
	batch, length := int64(usualBatch), b.seconds/2 // enough for tens of thousands of decisions in a closed loop
	if s.rate > 0 {
		batch, length = 1, b.seconds
	}
	var decisions int64
	work, err := s.work(ctx, func() error {
		begun := time.Now()
		for time.Since(begun) < length && ctx.Err() == nil {
			if s.rate > 0 {
				loadgen.SleepUntil(ctx, begun.Add(time.Duration(float64(decisions)/s.rate*float64(time.Second))))
			}
			var hits []string
			for range batch {
				hits = append(hits, keys[rand.IntN(len(keys))]...) //nolint:gosec // need not be hard to guess
			}
			s.way.add(conn, script, hits)
			if _, err := conn.send(s.way.replies(len(hits))); err != nil {
				return err
			}
			decisions += batch
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	c.addWork(work, decisions)
	return nil
}

// counters makes the counters of all users, and returns their keys by user. Like Weir's
// counters, they have a time to live, and keys and numbers of the same length.
func (c *redisConn) counters(each int) ([][]string, error) {
	keys := make([][]string, users)
	for user := range keys {
		for i := range each {
			keys[user] = append(keys[user], fmt.Sprintf("w0|bench|k%d=user-%d|1h", i, user))
			c.add("SET", keys[user][i], "100000000000000", "EX", "3600")
		}
		if user%100 == 99 {
			if _, err := c.send(100 * each); err != nil {
				return nil, err
			}
		}
	}
	return keys, nil
}
