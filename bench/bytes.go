package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	loadgen "weir/internal/offline/bench"
)

// redisMemory is the memory of a live counter in Redis.
type redisMemory struct {
	BytesPerCounter rounds // including the key
	ByKey           []keyMemory
}

// keyMemory is the memory of a counter that is made without Weir.
type keyMemory struct {
	KeyBytes int
	Usage    float64 // result of MEMORY USAGE
	Used     float64 // increase of used_memory
}

// redisMemory measures the memory of the counters of 100,000 users, whose names are
// numbers.
func (b *bench) redisMemory(ctx context.Context) error {
	redis, err := b.redis()
	if err != nil {
		return err
	}
	rules := fmt.Sprintf("{domain: %s, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: %d}}]}", domain, plenty)
	weir, err := b.weir("bytes", rules, "REDIS_URL="+redis.address)
	if err != nil {
		return err
	}
	var info [2][]float64
	// The first 1,000 users also make connections and their buffers, which do not count.
	for i, users := range []int{1000, 100_000} {
		opts := b.everyValue(weir, users)
		opts.Descriptors = [][]loadgen.Entry{{{Key: "user", Value: loadgen.Placeholder}}}
		if _, err := measured(ctx, opts); err != nil {
			return err
		}
		if info[i], err = redis.redisInfo(ctx, []string{"memory", "keyspace"}, "used_memory", "db0"); err != nil {
			return err
		}
	}
	byKey, err := b.memoryByKey(ctx)
	if err != nil {
		return err
	}
	b.results.RedisMemory = redisMemory{
		ByKey:           byKey,
		BytesPerCounter: rounds{(info[1][0] - info[0][0]) / (info[1][1] - info[0][1])},
	}
	return nil
}

// memoryByKey measures counters with keys of several lengths, in a separate Redis.
func (b *bench) memoryByKey(ctx context.Context) (all []keyMemory, err error) {
	const counters = 100_000
	redis, err := b.redis()
	if err != nil {
		return nil, err
	}
	conn, err := redis.redisConn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for _, length := range []int{12, 16, 22, 40, 60} {
		conn.add("FLUSHALL")
		if _, err := conn.send(1); err != nil {
			return nil, err
		}
		before, err := redis.redisInfo(ctx, []string{"memory"}, "used_memory")
		if err != nil {
			return nil, err
		}
		// Set each key twice, because later commands free the outgrown hash tables.
		for n := range 2 * counters {
			// The state of a fixed window is a number of this length.
			conn.add("SET", fmt.Sprintf("%0*d", length, n%counters), "1790000000000001", "EX", "3600")
			if n%1000 == 999 {
				if _, err := conn.send(1000); err != nil {
					return nil, err
				}
			}
		}
		after, err := redis.redisInfo(ctx, []string{"memory"}, "used_memory")
		if err != nil {
			return nil, err
		}
		conn.add("MEMORY", "USAGE", fmt.Sprintf("%0*d", length, 0))
		text, err := conn.send(1)
		if err != nil {
			return nil, err
		}
		usage, err := strconv.ParseFloat(strings.TrimPrefix(text, ":"), 64)
		if err != nil {
			return nil, err
		}
		all = append(all, keyMemory{length, usage, (after[0] - before[0]) / counters})
	}
	return all, nil
}
