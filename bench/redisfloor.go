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

// way is a way to count in Redis that knows no limits. What a limiter's Redis
// costs is told in units of the least script, because that survives a change of
// the machine.
type way struct {
	name string
	// add adds one hit on each key to the pipeline.
	add func(c *redisConn, script string, keys []string)
	// replies is how many lines the replies to that are.
	replies func(keys int) int
}

// The names of the ways, as the tables show them.
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

// leastScript reads, compares and counts as little as a script can that decides.
//
//go:embed least.lua
var leastScript string

// usualBatch is how many decisions share a pipeline in a closed loop, as they do
// with Weir under the usual load.
const usualBatch = 22

// waysOf are all ways for decisions of so many hits, at a rate if it is not 0, beside
// the floor under the same load.
func (b *bench) waysOf(s servers, hits int, load string, rate float64) (subjects []subject) {
	for _, w := range ways {
		subjects = append(subjects, subject{name: w.name, load: load, descriptors: hits, redis: s.redises(), server: s.floor, way: w, measure: b.addWay, rate: rate})
	}
	return subjects
}

// besideFloor puts the load of a subject on the floor until stop is called. Beside Weir,
// Redis shares processors and their caches with a server and its load: alone on the
// machine, it takes a third less time for the same instructions.
func (b *bench) besideFloor(ctx context.Context, s subject) (stop func()) {
	load := b.load(s.server, s.descriptors)
	if s.rate > 0 {
		load = b.planned(s.server, s.rate)
	}
	load.Duration = time.Hour // until it is stopped
	ctx, cancel := context.WithCancel(ctx)
	var floor sync.WaitGroup
	floor.Go(func() { _, _ = loadgen.Run(ctx, load) })
	return func() { cancel(); floor.Wait() }
}

// addWay measures a way with a Redis that serves nobody else in the meantime.
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
	script, err := conn.send(2) // its length and itself
	if err != nil {
		return err
	}
	batch, length := int64(usualBatch), b.seconds/2 // in which a closed loop makes tens of thousands
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
				hits = append(hits, keys[rand.IntN(len(keys))]...) //nolint:gosec // it need not be hard to guess
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

// counters makes the counters of all users, and returns their keys by user. They
// are like Weir's: keys and numbers are as long, and all have a time to live.
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
