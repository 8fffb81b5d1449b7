package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	loadgen "weir/internal/offline/bench"
)

// cost is the cost of a decision. Server and Redis are CPU times in microseconds.
type cost struct {
	Name         string
	Load         string `json:",omitempty"` // difference from the usual load
	Descriptors  int
	Server       rounds `json:",omitempty"`
	Redis        rounds `json:",omitempty"`
	Calls        rounds `json:",omitempty"` // calls of the script per decision
	Bytes        rounds `json:",omitempty"` // bytes to and from Redis per decision
	Instructions rounds `json:",omitempty"` // instructions of Redis in user space per decision
	Answers      rounds `json:",omitempty"` // answers per second
}

// subject is a server or a way with a load, whose cost is measured.
type subject struct {
	name        string
	load        string
	descriptors int
	server      *program
	redis       []*program                                  // a single Redis, or the primaries of a cluster; nil without Redis
	way         *way                                        // measured instead of server, if not nil
	measure     func(context.Context, *cost, subject) error // addCost by default
	keys        int                                         // number of keys; as in the usual load by default
	draw        func(*rand.Rand) func() int                 // draws keys; all keys are equally likely by default
	rate        float64                                     // rate of an open loop, or 0 for a closed loop
	change      func(*loadgen.Options)
}

// These are the names of the subjects in the tables.
const (
	nameFloor   = "floor"
	nameMemory  = "memory"
	nameRedis   = "Redis"
	nameDenied  = "Redis, known to be over"
	nameDefault = "memory, GOGC=100"
)

// These are differences from the usual load or the usual limits.
const (
	loadLow     = "1,000/s"
	loadMiddle  = "3,000/s"
	loadZipf    = "Zipf keys"
	loadHot     = "one hot key"
	loadSliding = "sliding windows"
	loadBuckets = "token buckets"
	loadRules   = "100,000 rules"
)

// openLoads are the open loops, in which each decision wakes Redis.
var openLoads = []struct {
	load string
	rate float64
}{{loadLow, 1000}, {loadMiddle, usualRate}}

// users is the number of users with counters in Redis. It is so large that a processor's
// caches do not hold all their data.
const users = 10_000

// cost measures the cost of a decision, and the least possible cost in Redis.
func (b *bench) cost(ctx context.Context) error {
	s, err := b.servers()
	if err != nil {
		return err
	}
	denied, err := b.weir("denied", rulesOf(1, 1), "REDIS_URL="+s.redis.address, "CACHE_KEY_PREFIX=denied:")
	if err != nil {
		return err
	}
	subjects := []subject{
		{name: nameFloor, descriptors: 1, server: s.floor},
		{name: nameFloor, descriptors: 10, server: s.floor},
		{name: nameMemory, descriptors: 1, server: s.memory},
		{name: nameMemory, descriptors: 10, server: s.memory},
		{name: nameDenied, descriptors: 1, server: denied, redis: s.redises()},
	}
	for _, n := range limitCounts {
		subjects = append(subjects, b.waysOf(s, n, "", 0)...)
		subjects = append(subjects,
			subject{name: nameRedis, descriptors: n, server: s.stored, redis: s.redises(), keys: users},
			subject{name: nameRedis, load: loadZipf, descriptors: n, server: s.stored, redis: s.redises(), keys: users, draw: zipf})
	}
	subjects = append(subjects, subject{name: nameRedis, load: loadHot, descriptors: 1, server: s.stored, redis: s.redises(), draw: hot})
	for _, other := range []struct {
		load              string
		rules             string
		descriptors, keys int
	}{
		{loadSliding, rulesBy("sliding_window", 3, plenty), 3, users},
		{loadBuckets, rulesBy("token_bucket", 3, plenty), 3, users},
		{loadRules, manyRules(100_000), 1, 100_000},
	} {
		server, err := b.weir(other.load, other.rules, "REDIS_URL="+s.redis.address)
		if err != nil {
			return err
		}
		subjects = append(subjects, subject{name: nameRedis, load: other.load, descriptors: other.descriptors, server: server, redis: s.redises(), keys: other.keys})
	}
	for _, open := range openLoads {
		subjects = append(subjects, b.waysOf(s, 1, open.load, open.rate)...)
		subjects = append(subjects,
			subject{name: nameFloor, load: open.load, descriptors: 1, server: s.floor, rate: open.rate},
			subject{name: nameRedis, load: open.load, descriptors: 1, server: s.stored, redis: s.redises(), keys: users, rate: open.rate})
	}
	if err := b.useOnce(ctx, subjects); err != nil {
		return err
	}
	b.results.Cost, err = b.costs(ctx, subjects)
	return err
}

// useOnce uses the rules and counters of the subjects before the measurement, because
// their first use costs more.
func (b *bench) useOnce(ctx context.Context, subjects []subject) error {
	for _, s := range subjects {
		if s.keys == 0 || s.load == loadZipf || s.rate > 0 {
			continue
		}
		opts := b.everyValue(s.server, s.keys)
		opts.Requests = 2 * int64(s.keys) // one key in seven is never drawn
		opts.Duration = 20 * b.seconds    // longer than these requests take
		opts.Descriptors = descriptorsOf(s.descriptors)
		if _, err := measured(ctx, opts); err != nil {
			return err
		}
	}
	return nil
}

// tuning measures the cost of a decision with Go's default target of the garbage
// collector, the only tuning that can be switched off from outside.
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

// costs runs the load of each subject in turn, round by round.
func (b *bench) costs(ctx context.Context, subjects []subject) ([]cost, error) {
	costs := make([]cost, len(subjects))
	for i, s := range subjects {
		costs[i].Name, costs[i].Load, costs[i].Descriptors = s.name, s.load, s.descriptors
	}
	for range b.rounds {
		for i, s := range subjects {
			measure := b.addCost
			if s.measure != nil {
				measure = s.measure
			}
			if err := measure(ctx, &costs[i], s); err != nil {
				return nil, fmt.Errorf("%s %s: %w", s.name, s.load, err)
			}
		}
	}
	return costs, nil
}

func (b *bench) addCost(ctx context.Context, c *cost, s subject) error {
	opts := b.load(s.server, s.descriptors)
	if s.rate > 0 {
		opts = b.planned(s.server, s.rate)
	}
	if s.keys > 0 {
		opts.Keys = s.keys
	}
	opts.Draw = s.draw
	if s.change != nil {
		s.change(&opts)
	}
	// The warm-up is a separate run, so that Redis' statistics can be read after it.
	opts, err := warmedUp(ctx, opts)
	if err != nil {
		return err
	}
	var result *loadgen.Result
	var cpu float64
	work, err := s.work(ctx, func() (err error) {
		result, cpu, err = measuredCPU(ctx, opts, s.server)
		return err
	})
	if err != nil {
		return err
	}
	c.Server = append(c.Server, cpu)
	c.Answers = append(c.Answers, result.PerSecond)
	if s.redis != nil {
		c.addWork(work, result.SentWithWarmup)
	}
	return nil
}

// work calls meantime, and returns the work of the subject's Redis during the call.
func (s subject) work(ctx context.Context, meantime func() error) (redisWork, error) {
	before, err := s.workSoFar(ctx)
	if err == nil {
		err = meantime()
	}
	if err != nil {
		return redisWork{}, err
	}
	after, err := s.workSoFar(ctx)
	return after.minus(before), err
}

func (s subject) workSoFar(ctx context.Context) (sum redisWork, err error) {
	for _, p := range s.redis {
		w, err := p.redisWork(ctx)
		if err != nil {
			return redisWork{}, err
		}
		sum = sum.plus(w)
	}
	return sum, nil
}

// addWork adds the work of Redis for a number of decisions.
func (c *cost) addWork(w redisWork, decisions int64) {
	c.Redis = append(c.Redis, w.used/float64(decisions))
	c.Calls = append(c.Calls, w.calls/float64(decisions))
	c.Bytes = append(c.Bytes, w.bytes/float64(decisions))
	if w.instructions > 0 {
		c.Instructions = append(c.Instructions, w.instructions/float64(decisions))
	}
}

// zipf draws key n with a probability proportional to (1+n)^-1.1.
func zipf(rng *rand.Rand) func() int {
	z := rand.NewZipf(rng, 1.1, 1, users-1)
	return func() int { return int(z.Uint64()) }
}

// hot always draws the same key.
func hot(*rand.Rand) func() int { return func() int { return 0 } }
