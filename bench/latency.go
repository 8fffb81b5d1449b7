package main

import "context"

// latency is the latency of answers at a planned rate.
type latency struct {
	Name     string
	Rate     float64
	P50, P99 rounds // microseconds
}

// rates are the rates of the open loops, in requests per second.
var rates = []float64{500, 1000, 2000, usualRate, 5000, 8000}

// latency measures the latency of one limit against the rate.
func (b *bench) latency(ctx context.Context) error {
	all, err := b.servers()
	if err != nil {
		return err
	}
	subjects := []subject{{name: nameFloor, server: all.floor}, {name: nameMemory, server: all.memory}, {name: nameRedis, server: all.stored}}
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
	result, err := measured(ctx, b.planned(server, rate))
	if err != nil {
		return err
	}
	l.P50 = append(l.P50, float64(result.Latency.P50))
	l.P99 = append(l.P99, float64(result.Latency.P99))
	return nil
}
