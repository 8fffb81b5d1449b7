package main

import (
	"context"
	"fmt"

	loadgen "weir/internal/offline/bench"
)

// neighbours has the requests of quiet users and of a noisy user of the same tenant.
type neighbours struct {
	Quiet, Noisy neighbour
}

type neighbour struct {
	Asked, Admitted int64
}

// neighbours measures how many requests are admitted of 49 quiet users, each with one
// request a second, beside a noisy user with 300 requests a second. The limit of their
// tenant is large enough for all requests that the users' own limits admit.
func (b *bench) neighbours(ctx context.Context) error {
	redis, err := b.redis()
	if err != nil {
		return err
	}
	weir, err := b.weir("neighbours", fmt.Sprintf(`domain: %s
descriptors:
  - key: tenant
    rate_limit: {unit: second, requests_per_unit: 120}
    descriptors:
      - key: user
        rate_limit: {unit: second, requests_per_unit: 20}
`, domain), "REDIS_URL="+redis.address)
	if err != nil {
		return err
	}
	requests := func(rate float64, keys int, user string) loadgen.Options {
		opts := b.planned(weir, rate)
		opts.Warmup, opts.Duration = 0, 3*b.seconds
		opts.Keys = keys
		opts.Descriptors = [][]loadgen.Entry{{{Key: "tenant", Value: "t"}}, {{Key: "tenant", Value: "t"}, {Key: "user", Value: user}}}
		return opts
	}
	quiet, noisy := make(chan *loadgen.Result, 1), make(chan *loadgen.Result, 1)
	failed := make(chan error, 2)
	run := func(opts loadgen.Options, done chan<- *loadgen.Result) {
		result, err := measured(ctx, opts)
		failed <- err
		done <- result
	}
	go run(requests(49, 49, "quiet-{}"), quiet)
	go run(requests(300, 1, "noisy"), noisy)
	for range 2 {
		if err := <-failed; err != nil {
			return err
		}
	}
	q, n := <-quiet, <-noisy
	b.results.Neighbours = neighbours{neighbour{q.Answered, q.OK}, neighbour{n.Answered, n.OK}}
	return nil
}
