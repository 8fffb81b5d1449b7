package limiter

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// draw turns fuzzed bytes into small numbers. After the last byte, it returns zeros.
type draw struct {
	rest     []byte
	reserved map[string][]byte // by counter, the last reservation
}

func (d *draw) below(n int) int {
	if len(d.rest) == 0 {
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return int(b) % n
}

// drawn has, for each counter, the fields of limits that are part of its key. It covers every
// algorithm.
var drawn = func() (specs []Spec) {
	for a := range algorithms {
		for _, s := range []Spec{
			{Unit: Second}, {Unit: Second, UnitMultiplier: 30}, {Unit: Minute}, {Unit: Hour, UnitMultiplier: 7},
			{Unit: Month, UnitMultiplier: 5}, {Unit: Year, UnitMultiplier: 100},
		} {
			if s.Algorithm = Algorithm(a); s.Algorithm == ByCalendar {
				continue
			}
			specs = append(specs, s)
		}
	}
	for _, s := range []Spec{
		{Unit: Second, TimeZone: "Europe/Berlin"}, {Unit: Hour, TimeZone: "Europe/Berlin"}, {Unit: Day, TimeZone: "America/New_York"},
		{Unit: Day}, {Unit: Week, TimeZone: "Europe/Berlin"}, {Unit: Month}, {Unit: Month, UnitMultiplier: 3, TimeZone: "Europe/Berlin"}, {Unit: Year},
	} {
		s.Algorithm = ByCalendar
		specs = append(specs, s)
	}
	return specs
}()

var bans = []time.Duration{0, 10 * time.Minute, 0, MinBan, time.Hour, 10 * time.Minute, 0, MaxPeriod}

// limit draws a limit of any amount for a counter, with the given ban.
func (d *draw) limit(counter int, ban time.Duration) *Limit {
	s := drawn[counter]
	if s.Algorithm.Takes(DenyForOption) {
		s.DenyFor = ban
	}
	if s.Algorithm.Takes(SettleOption) {
		s.Settle = "reservation"
	}
	s.RequestsPerUnit = []uint64{3, 10, 100, 7, 1, 0, 60, 1001, 1_000_000, 50_000_017, math.MaxUint32, math.MaxUint32 - 4, MaxAmount - 27, MaxAmount}[d.below(14)]
	if s.Algorithm.Takes(BurstOption) {
		s.Burst = []uint64{0, 0, 1, 5, 20, 1000, math.MaxUint32, MaxAmount}[d.below(8)]
	}
	l, err := NewLimit(s)
	for err != nil { // because its numbers are too large
		s.RequestsPerUnit, s.Burst = s.RequestsPerUnit/10, s.Burst/100
		l, err = NewLimit(s)
	}
	return l
}

// hit draws a hit of l on a counter.
func (d *draw) hit(counter int, l *Limit) Hit {
	most := uint64(l.maxCost)
	costs := []uint64{1, 2, 3, 0, 1, 10, 100, l.Size(), math.MaxUint32, most - 1, most, most + 1, 1 << 63, math.MaxUint64}
	h := Hit{Limit: l, Cost: costs[d.below(len(costs))]}
	h.Key = l.AppendKind(Keys{}.Append(nil, "fuzz", []Entry{{"counter", strconv.Itoa(counter)}}, nil))
	if l.HoldKey() != "" {
		h.Hold = bytes.Repeat([]byte{byte(d.below(6))}, HoldSize)
		h.Refund = d.below(3) == 0
		return h
	}
	switch n := d.below(8); {
	case n == 0:
		h.Refund = true
	case n == 1:
		h.Always = true
	case l.Settle == "":
	case n == 2:
		h.Reservation = AppendReservation(slices.Clone(h.Key), binary.BigEndian.AppendUint64(make([]byte, 8), uint64(len(d.rest))))
	case n < 5: // often after it was settled, or although it was denied
		h.Reservation = d.reserved[string(h.Key)]
		h.Refund = h.Reservation != nil
	}
	return h
}

// step draws a step of the clock, within a window, across windows or backwards.
func (d *draw) step() time.Duration {
	return []time.Duration{
		0, 0, 0, time.Microsecond, -time.Microsecond, 999 * time.Microsecond, 300 * time.Millisecond, time.Second, 7 * time.Second,
		20 * time.Second, -20 * time.Second, time.Hour, -time.Hour, 24 * time.Hour, 30 * 24 * time.Hour, -100 * 24 * time.Hour, 3 * 365 * 24 * time.Hour,
	}[d.below(17)]
}

// clock returns now after a drawn step, at least the epoch and at most a century ahead.
func (d *draw) clock(now int64) int64 {
	return min(max(now+d.step().Microseconds(), 0), at(MaxPeriod))
}

// statesOf returns the states of the counters of hits, and adds new ones to all.
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

// keptOf returns, for each hit, the uses of its counter and the record of its reservation, if any.
// It adds new ones to all and records.
func keptOf(hits []Hit, all map[string]Uses, records map[string]*State) []Kept {
	kept := make([]Kept, len(hits))
	for i := range hits {
		if hits[i].Reservation != nil {
			kept[i].Record = statesOf([]Hit{{Key: hits[i].Reservation}}, records)[0]
		}
		if key := string(hits[i].Key); hits[i].HasUses() {
			if all[key] == nil {
				all[key] = hits[i].NewUses()
			}
			kept[i].Uses = all[key]
		}
	}
	return kept
}

// FuzzDecide compares Decide with the judge over histories of requests.
func FuzzDecide(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		history := make([]byte, 300)
		for i := range history {
			history[i] = byte(r.Uint32())
		}
		f.Add(history)
	}
	f.Fuzz(func(t *testing.T, history []byte) {
		d := &draw{history[:min(len(history), 1024)], map[string][]byte{}}
		j := newJudge()
		states, uses := map[string]*State{}, map[string]Uses{}
		now := at(0)
		first := d.below(len(drawn)) // few counters, so that hits share some
		for n := 0; len(d.rest) > 0; n++ {
			now = d.clock(now)
			var hits []Hit
			ban := bans[d.below(len(bans))] // one for all hits, because rules give a counter one ban; an exception has 0, too
			for range 1 + d.below(4) {
				counter := (first + d.below(4)) % len(drawn)
				l := d.limit(counter, ban)
				l.Mode = []Mode{Enforced, Enforced, Enforced, Shadow, Quota}[d.below(5)]
				hits = append(hits, d.hit(counter, l))
				if l.Mode != Enforced {
					hits[len(hits)-1].Group = []uint8{0, 1, 2, MaxGroup}[d.below(4)]
				}
			}
			wantDenied, want := j.decide(hits, now)
			out := slices.Repeat([]Decision{{true, true, true, true, 9, 9, 9, 9, 9}}, len(hits)) // Decide must overwrite all of it
			if denied := Decide(hits, statesOf(hits, states), keptOf(hits, uses, states), now, out); denied != wantDenied {
				t.Fatalf("request %d: denied is %v, want %v", n, denied, wantDenied)
			}
			for i, h := range hits {
				if h.Reservation != nil {
					d.reserved[string(h.Key)] = h.Reservation
				}
				if s := *states[string(h.Key)]; !s.unused() && s == h.Limit.roll(s, now) && h.Limit.Expiry(s) != now+want[i].reset {
					t.Fatalf("request %d at %d: %+v of %+v expires at %d", n, now, s, h.Limit.Spec, h.Limit.Expiry(s))
				}
				if diff := want[i].differs(out[i]); diff != "" {
					t.Fatalf("request %d at %d, hit %d, %+v of %+v: got%s", n, now, i, hits[i], hits[i].Limit.Spec, diff)
				}
			}
		}
	})
}
