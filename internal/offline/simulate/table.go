package simulate

import (
	"cmp"
	"maps"
	"slices"

	"weir/internal/limiter"
)

// table keeps the counters of one limit by the hashes of their keys, of which there may be many millions. Maps of their
// own, for what only some need, keep the others small, and without pointers there is nothing to scan.
type table struct {
	demand *demand // nil unless amounts are suggested
	states map[uint64]limiter.State
	denied map[uint64]struct{} // clients that were denied at least once
	peaks  map[uint64]peak     // with a demand
	hulls  map[uint64]*hull    // with a demand, of token buckets
}

// peak is what would be known of a client if it was never denied, see demand.
type peak struct {
	alone  limiter.State // of windows and of what is in flight
	amount uint64        // the amount that the client needs
}

// client is what is known of a client, but for whether it was denied.
type client struct {
	state limiter.State
	peak
	hull *hull // of a token bucket
}

func newTable(l *limiter.Limit, suggest bool) *table {
	t := &table{states: map[uint64]limiter.State{}, denied: map[uint64]struct{}{}, peaks: map[uint64]peak{}, hulls: map[uint64]*hull{}}
	if suggest {
		t.demand = newDemand(l)
	}
	return t
}

// get returns what is known of a client.
func (t *table) get(hash uint64) client { return client{t.states[hash], t.peaks[hash], t.hulls[hash]} }

// put keeps what is known of a client.
func (t *table) put(hash uint64, c *client) {
	t.states[hash] = c.state
	if t.demand != nil {
		t.peaks[hash] = c.peak
	}
	if c.hull != nil {
		t.hulls[hash] = c.hull
	}
}

// amounts returns for each share of clients the smallest amount at which no more than that
// share would have been denied.
func (t *table) amounts(shares []float64) (amounts []uint64) {
	clients := map[uint64]int{} // by the amounts that they need
	for _, p := range t.peaks {
		clients[p.amount]++
	}
	needed := slices.SortedFunc(maps.Keys(clients), func(a, b uint64) int { return cmp.Compare(b, a) })
	for _, share := range shares {
		left, amount := int(share*float64(len(t.peaks))), uint64(0) // clients that may be denied
		for _, n := range needed {
			if left -= clients[n]; left < 0 {
				amount = n
				break
			}
		}
		amounts = append(amounts, amount)
	}
	return amounts
}
