package limiter

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// draw reads small numbers from fuzzed bytes; 0 when they have ended.
type draw struct{ rest []byte }

func (d *draw) below(n int) int {
	if len(d.rest) == 0 {
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return int(b) % n
}

// drawn are the counters that hits are drawn for, of every algorithm: what their keys
// tell of the limits.
var drawn = func() (specs []Spec) {
	for a := range algorithms {
		for _, s := range []Spec{
			{Unit: Second}, {Unit: Second, UnitMultiplier: 30}, {Unit: Minute}, {Unit: Hour, UnitMultiplier: 7},
			{Unit: Month, UnitMultiplier: 5}, {Unit: Year, UnitMultiplier: 100},
		} {
			s.Algorithm = Algorithm(a)
			specs = append(specs, s)
			if s.Algorithm.Takes(AnchorOption) {
				s.Anchor = FirstHit
				specs = append(specs, s)
			}
		}
	}
	return specs
}()

// limit draws a limit for the counter of that number, of any amount.
func (d *draw) limit(counter int) *Limit {
	s := drawn[counter]
	s.RequestsPerUnit = []uint32{3, 10, 100, 7, 1, 0, 60, 1001, 1_000_000, 50_000_017, math.MaxUint32, math.MaxUint32 - 4}[d.below(12)]
	if s.Algorithm.Takes(BurstOption) {
		s.Burst = []uint32{0, 0, 1, 5, 20, 1000, math.MaxUint32}[d.below(7)]
	}
	l, err := NewLimit(s)
	for err != nil { // its numbers are too large
		s.RequestsPerUnit, s.Burst = s.RequestsPerUnit/10, s.Burst/100
		l, err = NewLimit(s)
	}
	return l
}

// hit draws what is asked of l on the counter of that number.
func (d *draw) hit(counter int, l *Limit) Hit {
	most := uint64(l.counting.most())
	costs := []uint64{1, 2, 3, 0, 1, 10, 100, uint64(l.Size()), math.MaxUint32, most - 1, most, most + 1, 1 << 63, math.MaxUint64}
	h := Hit{Limit: l, Cost: costs[d.below(len(costs))]}
	h.Key = Keys{}.Append(nil, "fuzz", []Entry{{"counter", strconv.Itoa(counter)}}, nil, l)
	switch d.below(8) {
	case 0:
		h.Refund = true
	case 1:
		h.Always = true
	}
	return h
}

// step draws how the clock moves, within and across windows and backwards.
func (d *draw) step() time.Duration {
	return []time.Duration{
		0, 0, 0, time.Microsecond, -time.Microsecond, 999 * time.Microsecond, 300 * time.Millisecond, time.Second, 7 * time.Second,
		20 * time.Second, -20 * time.Second, time.Hour, -time.Hour, 24 * time.Hour, 30 * 24 * time.Hour, -100 * 24 * time.Hour, 3 * 365 * 24 * time.Hour,
	}[d.below(17)]
}

// clock is now a drawn step later, between the epoch and a century from now.
func (d *draw) clock(now int64) int64 {
	return min(max(now+d.step().Microseconds(), 0), at(MaxPeriod))
}

func addHistories(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		history := make([]byte, 300)
		for i := range history {
			history[i] = byte(r.Uint32())
		}
		f.Add(history)
	}
}

// statesOf returns the states of the counters of hits, from all that there are.
func statesOf(hits []Hit, all map[string]*State) []*State {
	var states []*State
	for i := range hits {
		key := string(hits[i].Key)
		if all[key] == nil {
			all[key] = new(State)
		}
		states = append(states, all[key])
	}
	return states
}

// FuzzDecide compares Decide with the judge over histories of requests.
func FuzzDecide(f *testing.F) {
	addHistories(f)
	f.Fuzz(func(t *testing.T, history []byte) {
		d := &draw{history[:min(len(history), 1024)]}
		j := &judge{counters: map[string]exactCounter{}}
		states := map[string]*State{}
		now := at(0)
		first := d.below(len(drawn)) // few counters, so that hits meet
		for n := 0; len(d.rest) > 0; n++ {
			now = d.clock(now)
			var hits []Hit
			for range 1 + d.below(4) {
				counter := (first + d.below(4)) % len(drawn)
				l := d.limit(counter)
				l.Mode = []Mode{Enforced, Enforced, Enforced, Shadow, Quota}[d.below(5)]
				hits = append(hits, d.hit(counter, l))
			}
			wantDenied, want := j.decide(hits, now)
			out := make([]Decision, len(hits))
			if denied := Decide(hits, statesOf(hits, states), now, out); denied != wantDenied {
				t.Fatalf("request %d: denied is %v, want %v", n, denied, wantDenied)
			}
			for i := range hits {
				if diff := want[i].differs(out[i]); diff != "" {
					t.Fatalf("request %d at %d, hit %d, %+v of %+v: got%s", n, now, i, hits[i], hits[i].Limit.Spec, diff)
				}
			}
		}
	})
}
