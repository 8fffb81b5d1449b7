package main

import (
	"context"
	"time"

	"weir/internal/loadgen"
)

// cost is the CPU time of a decision, in microseconds.
type cost struct {
	Name        string
	Descriptors int
	Server      rounds
	Redis       rounds `json:",omitempty"`
	Calls       rounds `json:",omitempty"` // of the script, per decision
	Answers     rounds // per second
	Bytes       int64  `json:",omitempty"` // of Redis' memory, per live counter
}

// costs runs the usual load on each subject in turn, round by round.
func (b *bench) costs(ctx context.Context, subjects []subject) ([]cost, error) {
	costs := make([]cost, len(subjects))
	for i, s := range subjects {
		costs[i].Name, costs[i].Descriptors = s.name, s.descriptors
	}
	for range b.rounds {
		for i, s := range subjects {
			if err := b.addCost(ctx, &costs[i], s); err != nil {
				return nil, err
			}
		}
	}
	return costs, nil
}

// subject is what a cost is measured of.
type subject struct {
	name        string
	descriptors int
	server      *program
	redis       *program // nil: none
	change      func(*loadgen.Options)
}

func (b *bench) addCost(ctx context.Context, c *cost, s subject) error {
	var watched []*program
	var before int64
	var err error
	if s.redis != nil {
		watched = append(watched, s.redis)
		if before, err = s.redis.redisInfo(ctx, "commandstats", "cmdstat_evalsha"); err != nil {
			return err
		}
	}
	opts := b.load(s.server, s.descriptors, watched...)
	if s.change != nil {
		s.change(&opts)
	}
	result, err := measured(ctx, opts)
	if err != nil {
		return err
	}
	c.Server = append(c.Server, result.Processes[0].CPUPerRequest)
	c.Answers = append(c.Answers, result.PerSecond)
	if s.redis == nil {
		return nil
	}
	after, err := s.redis.redisInfo(ctx, "commandstats", "cmdstat_evalsha")
	if err != nil {
		return err
	}
	c.Redis = append(c.Redis, result.Processes[1].CPUPerRequest)
	c.Calls = append(c.Calls, float64(after-before)/float64(result.Sent))
	return nil
}

// The names of the subjects, as the tables show them.
const (
	nameFloor  = "floor"
	nameMemory = "memory"
	nameRedis  = "Redis"
	nameDenied = "Redis, known to be over"
)

// cost measures what a decision costs.
func (b *bench) cost(ctx context.Context) error {
	floor, err := b.floor()
	if err != nil {
		return err
	}
	redis, err := b.redis()
	if err != nil {
		return err
	}
	memory, err := b.weir("memory", rulesOf(10, plenty))
	if err != nil {
		return err
	}
	weir, err := b.weir("redis", rulesOf(10, plenty), "REDIS_URL="+redis.address)
	if err != nil {
		return err
	}
	denied, err := b.weir("denied", rulesOf(1, 1), "REDIS_URL="+redis.address, "CACHE_KEY_PREFIX=denied:")
	if err != nil {
		return err
	}
	b.results.Cost, err = b.costs(ctx, []subject{
		{name: nameFloor, descriptors: 1, server: floor},
		{name: nameFloor, descriptors: 10, server: floor},
		{name: nameMemory, descriptors: 1, server: memory},
		{name: nameMemory, descriptors: 10, server: memory},
		{name: nameRedis, descriptors: 1, server: weir, redis: redis},
		{name: nameRedis, descriptors: 3, server: weir, redis: redis},
		{name: nameRedis, descriptors: 10, server: weir, redis: redis},
		{name: nameDenied, descriptors: 1, server: denied, redis: redis},
	})
	if err != nil {
		return err
	}
	b.results.Cost[4].Bytes, err = b.bytesPerCounter(ctx, weir, redis)
	return err
}

// bytesPerCounter is what a live counter takes of Redis' memory, its key
// included.
func (b *bench) bytesPerCounter(ctx context.Context, weir, redis *program) (int64, error) {
	if err := redis.redisFlush(ctx); err != nil {
		return 0, err
	}
	before, err := redis.redisInfo(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	const most = 200_000
	opts := b.load(weir, 1)
	opts.Warmup, opts.Requests, opts.Duration = 0, most, time.Minute
	opts.Traffic.Keys = 100 * most // nearly each request has a counter of its own
	if _, err := measured(ctx, opts); err != nil {
		return 0, err
	}
	after, err := redis.redisInfo(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	keys, err := redis.redisInfo(ctx, "keyspace", "db0")
	if err != nil {
		return 0, err
	}
	return (after - before) / max(keys, 1), nil
}
