package simulate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// ask is the time and the cost of a hit.
type ask struct {
	at   int64
	cost uint64
}

// history returns the hits of a client that sends in bursts, pauses, and changes its rate.
func history(random *rand.Rand, n int) (list []ask) {
	at := int64(1_700_000_000_000_000) + random.Int64N(3_600_000)*1000
	for range n {
		switch random.IntN(10) {
		case 0:
			at += random.Int64N(7_200_000) * 1000
		case 1, 2, 3:
		default:
			at += random.Int64N(1+int64(60_000*random.Float64())) * 1000
		}
		list = append(list, ask{at, 1 + uint64(random.IntN(3)*random.IntN(2))})
	}
	return list
}

// denies reports whether a limit would deny any hit of a history.
func denies(t *testing.T, s limiter.Spec, list []ask) bool {
	hit, state := limiter.Hit{Limit: storetest.Must(s)}, limiter.State{}
	var kept []limiter.Kept
	if hit.HasUses() {
		kept = append(kept, limiter.Kept{Uses: hit.NewUses()})
	}
	for _, a := range list {
		var out [1]limiter.Decision
		hit.Cost = a.cost
		if limiter.Decide([]limiter.Hit{hit}, []*limiter.State{&state}, kept, a.at, out[:]) {
			return true
		}
	}
	return false
}

// The amount suggested for one client is the smallest that denies no hit: a smaller amount denies a hit. The burst
// of a bucket keeps its ratio to the amount.
func TestPeaks(t *testing.T) {
	for name, spec := range map[string]limiter.Spec{
		"fixed window":          {Unit: limiter.Hour},
		"fixed window of a day": {Unit: limiter.Day},
		"first hit":             {Unit: limiter.Hour, Algorithm: limiter.FirstHit},
		"calendar":              {Unit: limiter.Day, Algorithm: limiter.ByCalendar, TimeZone: "Europe/Berlin"},
		"sliding window":        {Unit: limiter.Hour, Algorithm: limiter.SlidingWindow},
		"token bucket":          {Unit: limiter.Minute, Algorithm: limiter.TokenBucket},
		"token bucket of a day": {Unit: limiter.Day, Algorithm: limiter.TokenBucket},
		"small burst":           {Unit: limiter.Hour, Algorithm: limiter.TokenBucket, Burst: 20},
		"large burst":           {Unit: limiter.Hour, Algorithm: limiter.TokenBucket, Burst: 50},
		"sliding log":           {Unit: limiter.Hour, Algorithm: limiter.SlidingLog},
		"banned":                {Unit: limiter.Hour, DenyFor: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			random, ratio := rand.New(rand.NewPCG(7, 7)), spec.Burst/10
			for i := range 50 {
				list := history(random, 1+random.IntN(300))
				spec.RequestsPerUnit, spec.Burst = 10, 10*ratio
				amount := peakOf(t, spec, list)
				if spec.RequestsPerUnit, spec.Burst = amount, amount*ratio; denies(t, spec, list) {
					t.Fatalf("client %d: %d denies", i, amount)
				}
				less := amount - 1
				if ratio > 0 {
					less -= amount / 100
				}
				if spec.RequestsPerUnit, spec.Burst = less, less*ratio; amount > 1 && !denies(t, spec, list) {
					t.Fatalf("client %d: %d is enough, suggested was %d", i, less, amount)
				}
			}
		})
	}
}

// ask returns the hits of a request that makes one call for each client. Each client belongs to the limit with the
// same index.
func (e *engine) ask(clients ...uint64) (of asked) {
	for i, c := range clients {
		s := e.limits[i]
		of.begins = append(of.begins, hit{Hit: limiter.Hit{Limit: s.limit, Cost: 1}, of: s, hash: (c + 1) * 0x9E3779B97F4A7C15, newCall: true})
	}
	return of
}

// peakOf returns the amount that is suggested for one client.
func peakOf(t *testing.T, spec limiter.Spec, list []ask) uint64 {
	c := newStats(nil, storetest.Must(spec), true)
	e := engine{plan: &plan.Options{}, limits: []*limitStats{c}}
	for _, a := range list {
		of := e.ask(42)
		of.begins[0].Cost = a.cost
		e.decide(&of, a.at, 0)
	}
	return suggest(c.table.needs(), 0)
}

func TestAmounts(t *testing.T) {
	c := newTable(storetest.Must(limiter.Spec{RequestsPerUnit: 1, Unit: limiter.Hour}), true)
	const clients = 10_000
	for i := range uint64(clients) {
		c.put(i, &client{peak: peak{amount: 10 * (i + 1)}})
	}
	for share, want := range map[float64]uint64{0: clients, 0.001: clients - 10, 0.01: clients - 100, 0.5: clients / 2} {
		testenv.Equal(t, suggest(c.needs(), share), 10*want, "%v", share)
	}
}

func TestWorst(t *testing.T) {
	var w worst
	for i := range 100_000 {
		name, hash := fmt.Sprint("key|rare ", i), uint64(i)+100
		if i%10 == 0 {
			name, hash = "key|often", 1
		}
		w.add(uint64(i)+1, hash, []byte(name))
	}
	if top := w.top(10); len(top) != 1 || top[0].Client != "often" || top[0].Denied-top[0].Uncertain > 10_000 || top[0].Denied < 10_000 {
		t.Errorf("the worst are %+v", top)
	}
}

func TestSeries(t *testing.T) {
	s := series{}
	const days = 20
	for m := range int64(days * 24 * 60) {
		s.add(m*minute+m%1000, uint64(1+m%3), 0)
	}
	s.add(777*minute, 0, 1)
	worst, all := s.report()
	var sum uint64
	for _, n := range all.Requests {
		sum += n
	}
	if sum != days*24*60*2 || len(all.Requests) > maxSpans || len(all.Denied) != len(all.Requests) || worst.At.Unix() != 777*60 || worst.count != (count{1, 1}) {
		t.Errorf("sum %d in %d spans, worst minute %+v", sum, len(all.Requests), worst)
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 1: "100 %", 0.1234: "12.3 %", 0.0005: "0.05 %", 0.001: "0.1 %", 0.01: "1 %", 0.0000003: "0.00003 %"} {
		testenv.Equal(t, percent(share), want, "%v", share)
	}
}
