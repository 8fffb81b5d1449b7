package main

import (
	"context"

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
}

// subject is what a cost is measured of.
type subject struct {
	name        string
	descriptors int
	server      *program
	redis       *program // nil: none
	change      func(*loadgen.Options)
}

// The names of the subjects, as the tables show them.
const (
	nameFloor   = "floor"
	nameMemory  = "memory"
	nameRedis   = "Redis"
	nameDenied  = "Redis, known to be over"
	nameDefault = "memory, GOGC=100"
)

// cost measures what a decision costs.
func (b *bench) cost(ctx context.Context) error {
	s, err := b.servers()
	if err != nil {
		return err
	}
	denied, err := b.weir("denied", rulesOf(1, 1), "REDIS_URL="+s.redis.address, "CACHE_KEY_PREFIX=denied:")
	if err != nil {
		return err
	}
	b.results.Cost, err = b.costs(ctx, []subject{
		{name: nameFloor, descriptors: 1, server: s.floor},
		{name: nameFloor, descriptors: 10, server: s.floor},
		{name: nameMemory, descriptors: 1, server: s.memory},
		{name: nameMemory, descriptors: 10, server: s.memory},
		{name: nameRedis, descriptors: 1, server: s.stored, redis: s.redis},
		{name: nameRedis, descriptors: 3, server: s.stored, redis: s.redis},
		{name: nameRedis, descriptors: 10, server: s.stored, redis: s.redis},
		{name: nameDenied, descriptors: 1, server: denied, redis: s.redis},
	})
	return err
}

// tuning measures what a decision costs without what can be switched off from
// outside, which is the collector's target.
func (b *bench) tuning(ctx context.Context) error {
	s, err := b.servers()
	if err != nil {
		return err
	}
	usual, err := b.weir("default", rulesOf(1, plenty), "GOGC=100")
	if err != nil {
		return err
	}
	b.results.Tuning, err = b.costs(ctx, []subject{
		{name: nameFloor, descriptors: 1, server: s.floor},
		{name: nameMemory, descriptors: 1, server: s.memory},
		{name: nameDefault, descriptors: 1, server: usual},
	})
	return err
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

func (b *bench) addCost(ctx context.Context, c *cost, s subject) error {
	opts := b.load(s.server, s.descriptors)
	var before int64
	if s.redis != nil {
		opts.PIDs = append(opts.PIDs, s.redis.pid())
		var err error
		if before, err = s.redis.redisCalls(ctx); err != nil {
			return err
		}
	}
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
	after, err := s.redis.redisCalls(ctx)
	if err != nil {
		return err
	}
	c.Redis = append(c.Redis, result.Processes[1].CPUPerRequest)
	c.Calls = append(c.Calls, float64(after-before)/float64(result.SentWithWarmup))
	return nil
}
