package main

import "context"

// latency is how long answers took at a planned rate.
type latency struct {
	Name     string
	Rate     float64
	P50, P99 rounds // microseconds
}

// rates of the open loops, in requests per second.
var rates = []float64{500, 1000, 2000, 3000, 5000, 8000}

// latency measures the latency of one limit against the rate.
func (b *bench) latency(ctx context.Context) error {
	floor, err := b.floor()
	if err != nil {
		return err
	}
	redis, err := b.redis()
	if err != nil {
		return err
	}
	memory, err := b.weir("memory", rulesOf(1, plenty))
	if err != nil {
		return err
	}
	weir, err := b.weir("redis", rulesOf(1, plenty), "REDIS_URL="+redis.address)
	if err != nil {
		return err
	}
	subjects := []subject{{name: nameFloor, server: floor}, {name: nameMemory, server: memory}, {name: nameRedis, server: weir}}
	b.results.Latency = nil
	for _, s := range subjects {
		for _, rate := range rates {
			b.results.Latency = append(b.results.Latency, latency{Name: s.name, Rate: rate})
		}
	}
	for range b.rounds {
		for j, rate := range rates {
			for i, s := range subjects {
				l := &b.results.Latency[i*len(rates)+j]
				if err := b.addLatency(ctx, l, s.server, rate); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) addLatency(ctx context.Context, l *latency, server *program, rate float64) error {
	opts := b.load(server, 1)
	opts.Rate, opts.Callers = rate, 512
	result, err := measured(ctx, opts)
	if err != nil {
		return err
	}
	l.P50 = append(l.P50, float64(result.Latency.P50))
	l.P99 = append(l.P99, float64(result.Latency.P99))
	return nil
}
