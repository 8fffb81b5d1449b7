package main

import (
	"context"
	"fmt"

	"github.com/prometheus/procfs"
)

// wakeups is the cost of a decision at rates at which each decision wakes threads.
type wakeups struct {
	Name          string
	Rate          float64
	Server        rounds // microseconds of CPU time
	Switches      rounds // number of times that a thread of the server went to sleep
	RedisSwitches rounds // number of times that a thread of Redis went to sleep
}

// wakeupRates are the rates of the open loops, in requests per second.
var wakeupRates = []float64{200, 1000, 3000}

// wakeups measures how often threads sleep and wake for a decision.
func (b *bench) wakeups(ctx context.Context) error {
	all, err := b.servers()
	if err != nil {
		return err
	}
	subjects := []subject{{name: nameFloor, server: all.floor}, {name: nameMemory, server: all.memory}, {name: nameRedis, server: all.stored, redis: all.redises()}}
	b.results.Wakeups = nil
	for _, s := range subjects {
		for _, rate := range wakeupRates {
			b.results.Wakeups = append(b.results.Wakeups, wakeups{Name: s.name, Rate: rate})
		}
	}
	for range b.rounds {
		for j, rate := range wakeupRates {
			for i, s := range subjects {
				if err := b.addWakeups(ctx, &b.results.Wakeups[i*len(wakeupRates)+j], s); err != nil {
					return fmt.Errorf("%s at %.0f/s: %w", s.name, rate, err)
				}
			}
		}
	}
	return nil
}

func (b *bench) addWakeups(ctx context.Context, w *wakeups, s subject) error {
	opts, err := warmedUp(ctx, b.planned(s.server, w.Rate))
	if err != nil {
		return err
	}
	sleeps := func() (server, redis float64, err error) {
		if server, err = s.server.sleeps(); err != nil || s.redis == nil {
			return server, 0, err
		}
		redis, err = s.redis[0].sleeps()
		return server, redis, err
	}
	server, redis, err := sleeps()
	if err != nil {
		return err
	}
	result, cpu, err := measuredCPU(ctx, opts, s.server)
	if err != nil {
		return err
	}
	serverAfter, redisAfter, err := sleeps()
	if err != nil {
		return err
	}
	sent := float64(result.SentWithWarmup)
	w.Server = append(w.Server, cpu)
	w.Switches = append(w.Switches, (serverAfter-server)/sent)
	if s.redis != nil {
		w.RedisSwitches = append(w.RedisSwitches, (redisAfter-redis)/sent)
	}
	return nil
}

// sleeps returns the number of times that threads of p have gone to sleep.
func (p *program) sleeps() (sum float64, err error) {
	threads, err := procfs.AllThreads(p.pid())
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		status, err := thread.NewStatus()
		if err != nil {
			return 0, err
		}
		sum += float64(status.VoluntaryCtxtSwitches)
	}
	return sum, nil
}

// wakeupsTable shows wakeups by rate.
func wakeupsTable(r *results) string {
	of := func(name string, rate float64) (found wakeups) {
		for _, w := range r.Wakeups {
			if w.Name == name && w.Rate == rate {
				found = w
			}
		}
		return found
	}
	var rows []string
	for _, rate := range wakeupRates {
		floor, memory, redis := of(nameFloor, rate), of(nameMemory, rate), of(nameRedis, rate)
		if redis.Server == nil {
			continue
		}
		rows = append(rows, fmt.Sprintf("| %.0f | %s | %s | %s | %s | %s | %s | %s |", rate,
			floor.Server.show("%.0f"), floor.Switches.show("%.1f"), memory.Server.show("%.0f"), memory.Switches.show("%.1f"),
			redis.Server.show("%.0f"), redis.Switches.show("%.1f"), redis.RedisSwitches.show("%.2f")))
	}
	return table("| requests per second | floor, µs | sleeps | memory, µs | sleeps | Redis: server, µs | sleeps | sleeps of Redis |", rows...)
}
