package redis

import (
	"weir/internal/limiter"
)

// giveBack is what one counter was charged by a request that turned out to be
// denied, or failed, somewhere else. decide.lua takes it back as
// limiter.Limit.GiveBack does.
type giveBack struct {
	key     []byte
	limit   *limiter.Limit
	cost    int64
	charged limiter.State // of the counter, after the charge
	hold    []byte        // its name, which is given back instead of the cost
	first   int           // hit on the counter, of those of the request there
}

// giveBacks lists what hits were charged that a denied request is not to be:
// one giveBack for each counter, however many hits it has, and for each hold.
func giveBacks(hits []limiter.Hit, counters *limiter.Counters, out []limiter.Decision, states []limiter.State) (list []giveBack) {
	size := make([]int, len(hits)) // of the list with the charge of a counter, 0 without; by the first hit on it
	for i := range hits {
		h := &hits[i]
		if h.Unconditional() || h.Cost == 0 || out[i].Over || out[i].Already {
			continue
		}
		first := counters.First(i)
		if h.Hold != nil {
			list = append(list, giveBack{h.Key, h.Limit, h.CountedCost(), states[i], h.Hold, first})
			continue
		}
		if size[first] > 0 {
			list[size[first]-1].cost += h.CountedCost()
			continue
		}
		list = append(list, giveBack{h.Key, h.Limit, h.CountedCost(), states[i], nil, first})
		size[first] = len(list)
	}
	return list
}
