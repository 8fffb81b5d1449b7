package server

import (
	"context"
	"sync"
	"time"

	"weir/internal/operators/api"
)

// How often rates looks, how many looks it keeps, which is 15 minutes of them, and over
// how many it says how much is decided now.
const (
	ratesEvery  = 5 * time.Second
	ratesKept   = 180
	ratesLatest = 2
)

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

func newRates(now time.Time, totals func() (decided, denied uint64)) *rates {
	r := &rates{totals: totals}
	r.look(now)
	return r
}

// run looks until ctx ends.
func (r *rates) run(ctx context.Context) {
	every := time.NewTicker(ratesEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-every.C:
			r.look(now)
		}
	}
}

func (r *rates) look(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.looks) > ratesKept {
		r.looks = append(r.looks[:0], r.looks[1:]...)
	}
	r.looks = append(r.looks, r.totalsAt(now))
}

func (r *rates) totalsAt(now time.Time) look {
	decided, denied := r.totals()
	return look{now, decided, denied}
}

// history returns the rates of the last 15 minutes, the oldest first.
func (r *rates) history() []api.Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]api.Rates, 0, ratesKept)
	for i := 1; i < len(r.looks); i++ {
		list = append(list, r.looks[i-1].until(r.looks[i]))
	}
	return list
}

// latest returns the rates of the last ten seconds, or, as long as there is no look that
// is as old, since the start.
func (r *rates) latest(now time.Time) api.Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.looks[max(0, len(r.looks)-ratesLatest)]
	return from.until(r.totalsAt(now))
}

// until returns the rates between two looks.
func (l look) until(next look) api.Rates {
	rates := api.Rates{At: next.at.UTC()}
	if seconds := next.at.Sub(l.at).Seconds(); seconds > 0 {
		rates.Decisions, rates.Denials = float64(next.decided-l.decided)/seconds, float64(next.denied-l.denied)/seconds
	}
	return rates
}
