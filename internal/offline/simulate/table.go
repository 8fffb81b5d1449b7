package simulate

import (
	"cmp"
	"maps"
	"slices"

	"weir/internal/limiter"
)

// table has the counters of one limit by the hashes of their keys. There may be many millions, so the properties that
// only some clients have are in separate maps, and all maps but hulls are without pointers for the garbage collector.
type table struct {
	limit   *limiter.Limit
	suggest bool // whether amounts are suggested
	states  map[uint64]limiter.State
	denied  map[uint64]struct{} // clients that were denied at least once
	peaks   map[uint64]peak     // empty unless amounts are suggested
	hulls   map[uint64]*hull    // likewise, and empty if the limit is no token bucket
}

// peak has the state of a client for demand, which counts all its requests as admitted.
type peak struct {
	alone  limiter.State // not used for token buckets
	amount uint64        // smallest amount that never denies the client
}

// client is the state of a client. Whether it was denied is only in table.
type client struct {
	state limiter.State
	peak
	hull *hull // nil if the limit is no token bucket
}

func newTable(l *limiter.Limit, suggest bool) *table {
	return &table{l, suggest, map[uint64]limiter.State{}, map[uint64]struct{}{}, map[uint64]peak{}, map[uint64]*hull{}}
}

func (t *table) get(hash uint64) client { return client{t.states[hash], t.peaks[hash], t.hulls[hash]} }

func (t *table) put(hash uint64, c *client) {
	t.states[hash] = c.state
	if t.suggest {
		t.peaks[hash] = c.peak
	}
	if c.hull != nil {
		t.hulls[hash] = c.hull
	}
}

// amounts returns the smallest amount for each share, so that no more than that share of the
// clients would have been denied.
func (t *table) amounts(shares []float64) (amounts []uint64) {
	clients := map[uint64]int{} // number of clients by the amount that they need
	for _, p := range t.peaks {
		clients[p.amount]++
	}
	needed := slices.SortedFunc(maps.Keys(clients), func(a, b uint64) int { return cmp.Compare(b, a) })
	for _, share := range shares {
		left, amount := int(share*float64(len(t.peaks))), uint64(0) // left is the number of clients that may be denied
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
