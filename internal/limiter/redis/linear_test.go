package redis

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// TestTimeGrowsWithTheHits has requests of four times as many hits, each on a counter of its
// own, take no more than eight times as long.
func TestTimeGrowsWithTheHits(t *testing.T) {
	p := newPair(t)
	now := time.Now()
	one, here, there := yearly(1), yearly(5), perSeconds(5)
	full := limiter.State{At: now.UnixMicro() / one.Period().Microseconds(), Used: 1}
	hitsOf := func(n int, of func(i int) *limiter.Limit) []limiter.Hit {
		hits := make([]limiter.Hit, n)
		for i := range hits {
			hits[i] = hit(fmt.Sprint("counter ", i), of(i), 1)
		}
		return hits
	}
	for name, prepare := range map[string]func(n int) func(){
		"known denials": func(n int) func() {
			d := newDenials(64<<20, func() time.Time { return now })
			hits, states := hitsOf(n, func(int) *limiter.Limit { return one }), make([]limiter.State, n)
			for i := range states {
				states[i] = full
			}
			d.note(ticket{&batch{number: 1, asked: now, reply: reply{now: now.UnixMicro()}}, 0}, hits, states, true)
			out := make([]limiter.Decision, n)
			return func() {
				if !d.deny(hits, out) || !out[n-1].Remembered {
					t.Fatal("not denied from memory")
				}
			}
		},
		"hits across slots": func(n int) func() {
			hits := hitsOf(n, func(i int) *limiter.Limit { return []*limiter.Limit{here, there}[i%2] })
			return func() {
				r := newCrossSlot(hits, p.locate)
				for i := range r.parts {
					q := &r.parts[i]
					q.ticket, q.states = ticket{&batch{}, 0}, make([]limiter.State, len(q.hits))
				}
				r.parts[1].out[0].Over, r.parts[1].vetoed = true, true
				r.merge()
				if !r.denied || len(r.parts[0].charges) != n/2 {
					t.Fatalf("denied %t, %d charges to give back", r.denied, len(r.parts[0].charges))
				}
			}
		},
		"hits of a batch": func(n int) func() {
			hits := hitsOf(n, func(int) *limiter.Limit { return here })
			return func() {
				b := newBatch(0, 0)
				b.add(hits, false)
				b.arguments(nil, "")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const few = 2000
			least := func(do func()) time.Duration {
				best := time.Hour
				for range 5 {
					began := time.Now()
					do()
					best = min(best, time.Since(began))
				}
				return best
			}
			small, large := prepare(few), prepare(4*few)
			testenv.Until(t, "four times as many take at most eight times as long", func() bool { // a busy machine may need more tries
				return least(large) <= 8*least(small)
			})
		})
	}
}
