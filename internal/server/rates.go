package server

import (
	"context"
	"sync"
	"time"

	"weir/internal/operators/api"
)

// How often rates looks, and how many looks it keeps, which is 15 minutes of them.
const ratesEvery, ratesKept = 5 * time.Second, 180

// rates keeps how many requests were decided and denied in the last 15 minutes.
type rates struct {
	totals func() (decided, denied uint64) // since the start

	mu    sync.Mutex
	looks []look // the oldest first, one more than there are times between them
}

// look is the totals at a time.
type look struct {
	at              time.Time
	decided, denied uint64
}

func newRates(totals func() (decided, denied uint64)) *rates {
	r := &rates{totals: totals}
	r.looks = []look{r.look()}
	return r
}

func (r *rates) look() look {
	decided, denied := r.totals()
	return look{time.Now(), decided, denied}
}

// run looks until ctx ends.
func (r *rates) run(ctx context.Context) {
	for pause(ctx, ratesEvery) {
		r.mu.Lock()
		r.looks = append(r.looks[max(0, len(r.looks)-ratesKept):], r.look())
		r.mu.Unlock()
	}
}

// history returns the rates of the last 15 minutes, the oldest first.
func (r *rates) history() (list []api.Rates) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, next := range r.looks[1:] {
		list = append(list, r.looks[i].until(next))
	}
	return list
}

// latest returns the rates of the last five to ten seconds, or since the start.
func (r *rates) latest() api.Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looks[max(0, len(r.looks)-2)].until(r.look())
}

// until returns the rates between two looks.
func (l look) until(next look) api.Rates {
	rates := api.Rates{At: next.at.UTC()}
	if seconds := next.at.Sub(l.at).Seconds(); seconds > 0 {
		rates.Decisions, rates.Denials = float64(next.decided-l.decided)/seconds, float64(next.denied-l.denied)/seconds
	}
	return rates
}
