package main

import (
	"context"

	loadgen "weir/internal/offline/bench"
)

// scaled is the cost of a decision at a number N of something, such as connections.
type scaled struct {
	N                    int
	Floor, Memory, Redis cost
}

// descriptors measures the cost against the number of descriptors of a request.
func (b *bench) descriptors(ctx context.Context) (err error) {
	b.results.Descriptors, err = b.scale(ctx, []int{1, 2, 5, 10, mostDescriptors}, func(s *subject, n int) { s.descriptors = n })
	return err
}

// connections measures the cost against the number of connections.
func (b *bench) connections(ctx context.Context) (err error) {
	b.results.Connections, err = b.scale(ctx, []int{1, 4, 16, 64}, func(s *subject, n int) {
		s.change = func(opts *loadgen.Options) { opts.Connections = n }
	})
	return err
}

// scale measures the cost of the floor, in memory and with Redis for each n.
func (b *bench) scale(ctx context.Context, ns []int, change func(s *subject, n int)) ([]scaled, error) {
	servers, err := b.servers()
	if err != nil {
		return nil, err
	}
	var subjects []subject
	for _, n := range ns {
		for _, s := range []subject{
			{name: nameFloor, descriptors: 1, server: servers.floor},
			{name: nameMemory, descriptors: 1, server: servers.memory},
			{name: nameRedis, descriptors: 1, server: servers.stored, redis: servers.redises()},
		} {
			change(&s, n)
			subjects = append(subjects, s)
		}
	}
	costs, err := b.costs(ctx, subjects)
	if err != nil {
		return nil, err
	}
	var all []scaled
	for i, n := range ns {
		all = append(all, scaled{n, costs[3*i], costs[3*i+1], costs[3*i+2]})
	}
	return all, nil
}
