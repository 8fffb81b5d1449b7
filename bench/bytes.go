package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"weir/internal/loadgen"
)

// redisMemory is what a live counter takes of Redis' memory.
type redisMemory struct {
	KeyBytes        rounds // the names of some keys
	BytesPerCounter rounds // the key included
}

// redisMemory measures the memory of 100,000 counters of users, who are known
// by numbers.
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
	var counters, bytes [2]int64
	// The first few make the connections and their buffers, which are no counters'.
	for i, users := range []int{1000, 100_000} {
		opts := b.everyValue(weir, users)
		opts.Traffic.Descriptors = [][]loadgen.Entry{{{Key: "user", Value: loadgen.Placeholder}}}
		if _, err := measured(ctx, opts); err != nil {
			return err
		}
		if counters[i], err = redis.redisInfo(ctx, "keyspace", "db0"); err != nil {
			return err
		}
		if bytes[i], err = redis.redisInfo(ctx, "memory", "used_memory"); err != nil {
			return err
		}
	}
	keyBytes, err := redis.redisKeyBytes(ctx)
	if err != nil {
		return err
	}
	b.results.RedisMemory = redisMemory{
		KeyBytes:        keyBytes,
		BytesPerCounter: rounds{float64(bytes[1]-bytes[0]) / float64(counters[1]-counters[0])},
	}
	return nil
}

// redisKeyBytes is how long the names of some keys are.
func (p *program) redisKeyBytes(ctx context.Context) (lengths rounds, err error) {
	const some = 9
	text, err := p.redisAsk(ctx, slices.Repeat([]string{"RANDOMKEY"}, some)...)
	if err != nil {
		return nil, err
	}
	replies := strings.NewReader(text)
	for range some {
		var length int
		var name string
		if _, err := fmt.Fscanf(replies, "$%d\r\n%s\r\n", &length, &name); err != nil {
			return nil, fmt.Errorf("reading the name of a key: %w", err)
		}
		lengths = append(lengths, float64(length))
	}
	return lengths, nil
}
