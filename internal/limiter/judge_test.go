package limiter

import (
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// judge decides as the specification reads, with exact integers and by trying
// everything on a copy: slow, and independent of Decide.
type judge struct {
	books map[int]book // by counter
}

// book is what a counter used in its latest window.
type book struct {
	window, used *big.Int
}

// verdict is a Decision with exact numbers.
type verdict struct {
	over, charged                 bool
	used, remaining, reset, retry *big.Int // in units and microseconds; retry nil: never
}

func (j *judge) decide(counters []int, hits []Hit, now int64) (denied bool, verdicts []verdict) {
	verdicts = make([]verdict, len(hits))
	trial := maps.Clone(j.books)
	enforcedOver, quotas, quotasOver := false, 0, 0
	for i, h := range hits {
		b := turn(trial[counters[i]], h.Limit, now)
		after := new(big.Int).Add(b.used, atLeast(costOf(h), 1))
		over := !h.Refund && after.Cmp(amountOf(h.Limit)) > 0
		verdicts[i].over = over
		if !over || h.Always {
			b = write(b, h)
		}
		trial[counters[i]] = b
		switch h.Limit.Mode {
		case Enforced:
			enforcedOver = enforcedOver || over
		case Quota:
			quotas++
			if over {
				quotasOver++
			}
		}
	}
	denied = enforcedOver || quotas > 0 && quotas == quotasOver
	if denied {
		trial = maps.Clone(j.books)
	}
	for i, h := range hits {
		unconditional := h.Refund || h.Always && h.Cost > 0
		verdicts[i].charged = unconditional || !denied && !verdicts[i].over && h.Cost > 0
		if denied && unconditional {
			trial[counters[i]] = write(turn(trial[counters[i]], h.Limit, now), h)
		}
	}
	j.books = trial
	for i, h := range hits {
		verdicts[i].describe(turn(j.books[counters[i]], h.Limit, now), h, now)
	}
	return denied, verdicts
}

func (v *verdict) describe(b book, h Hit, now int64) {
	v.used = b.used
	v.remaining = atLeast(new(big.Int).Sub(amountOf(h.Limit), b.used), 0)
	v.reset = new(big.Int).Add(b.window, big.NewInt(1))
	v.reset.Mul(v.reset, periodOf(h.Limit))
	v.reset.Sub(v.reset, big.NewInt(now))
	switch {
	case !v.over:
		v.retry = new(big.Int)
	case atLeast(costOf(h), 1).Cmp(amountOf(h.Limit)) <= 0:
		v.retry = v.reset
	}
}

// turn opens a new window if now is in a later one.
func turn(b book, l *Limit, now int64) book {
	window := new(big.Int).Div(big.NewInt(now), periodOf(l))
	if b.window == nil || window.Cmp(b.window) > 0 {
		return book{window, new(big.Int)}
	}
	return b
}

// write adds a cost, or gives it back, within 0 and 2^52.
func write(b book, h Hit) book {
	used := new(big.Int)
	if h.Refund {
		used.Sub(b.used, costOf(h))
	} else {
		used.Add(b.used, costOf(h))
	}
	return book{b.window, atMost(atLeast(used, 0), 1<<52)}
}

func costOf(h Hit) *big.Int { return atMost(new(big.Int).SetUint64(h.Cost), 1<<52) }

func amountOf(l *Limit) *big.Int { return big.NewInt(int64(l.RequestsPerUnit)) }

// periodOf is in microseconds.
func periodOf(l *Limit) *big.Int {
	seconds := map[Unit]int64{
		Second: 1, Minute: 60, Hour: 3600, Day: 86400, Week: 604800, Month: 2592000, Year: 31536000,
	}[l.Unit]
	p := new(big.Int).Mul(big.NewInt(seconds), big.NewInt(int64(l.UnitMultiplier)))
	return p.Mul(p, big.NewInt(1_000_000))
}

func atLeast(n *big.Int, bound int64) *big.Int {
	if b := big.NewInt(bound); n.Cmp(b) < 0 {
		return b
	}
	return n
}

func atMost(n *big.Int, bound int64) *big.Int {
	if b := big.NewInt(bound); n.Cmp(b) > 0 {
		return b
	}
	return n
}

// differs tells how d differs from the verdict.
func (v verdict) differs(d Decision) string {
	var diff strings.Builder
	check := func(name string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			fmt.Fprintf(&diff, " %s %s, want %s;", name, g, w)
		}
	}
	check("over", d.Over, v.over)
	check("charged", d.Charged, v.charged)
	check("used", d.Used, v.used)
	check("remaining", d.Remaining, v.remaining)
	check("reset", d.ResetAfter.Nanoseconds(), new(big.Int).Mul(v.reset, big.NewInt(1000)))
	if v.retry == nil {
		check("retry", d.RetryAfter, Never)
	} else {
		check("retry", d.RetryAfter.Nanoseconds(), new(big.Int).Mul(v.retry, big.NewInt(1000)))
	}
	return diff.String()
}

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

// hit draws a hit and the number of its counter.
func (d *draw) hit() (counter int, h Hit) {
	counter = d.below(5)
	limit := &Limit{
		RequestsPerUnit: []uint32{3, 10, 100, 1, 0, 1<<32 - 1}[d.below(6)],
		Unit:            []Unit{Second, Minute, Minute, Month, Year}[counter],
		UnitMultiplier:  []uint32{1, 1, 7, 5, 100}[counter],
		Mode:            []Mode{Enforced, Enforced, Enforced, Shadow, Quota}[d.below(5)],
	}
	h = Hit{Limit: limit, Cost: []uint64{1, 2, 3, 0, 10, 1<<32 - 1, MaxCost - 1, MaxCost, MaxCost + 1, 1 << 63, 1<<64 - 1}[d.below(11)]}
	switch d.below(8) {
	case 0:
		h.Refund = true
	case 1:
		h.Always = true
	}
	return counter, h
}

// step draws how the clock moves, within and across windows and backwards.
func (d *draw) step() time.Duration {
	return []time.Duration{
		0, 0, 0, time.Microsecond, -time.Microsecond, 300 * time.Millisecond, time.Second, 20 * time.Second,
		-20 * time.Second, time.Hour, -time.Hour, 30 * 24 * time.Hour, -100 * 24 * time.Hour, 3 * 365 * 24 * time.Hour,
	}[d.below(14)]
}

// FuzzDecide compares Decide with the judge over histories of requests.
func FuzzDecide(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		history := make([]byte, 200)
		for i := range history {
			history[i] = byte(r.Uint32())
		}
		f.Add(history)
	}
	f.Fuzz(func(t *testing.T, history []byte) {
		d := &draw{history[:min(len(history), 4096)]}
		j := &judge{books: map[int]book{}}
		var states [5]State
		now := at(0)
		for n := 0; len(d.rest) > 0; n++ {
			now = min(max(now+d.step().Microseconds(), 0), at(MaxPeriod)) // else a Duration overflows
			var hits []Hit
			var counters []int
			var touched []*State
			for range 1 + d.below(4) {
				c, h := d.hit()
				hits, counters, touched = append(hits, h), append(counters, c), append(touched, &states[c])
			}
			wantDenied, want := j.decide(counters, hits, now)
			out := make([]Decision, len(hits))
			if denied := Decide(hits, touched, now, out); denied != wantDenied {
				t.Fatalf("request %d: denied is %v, want %v", n, denied, wantDenied)
			}
			for i := range hits {
				if diff := want[i].differs(out[i]); diff != "" {
					t.Fatalf("request %d, hit %d of %+v: got%s", n, i, hits, diff)
				}
			}
		}
	})
}
