package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"weir/internal/limiter"
)

// The walks are the same six requests on the same amount, 4 per minute.
const walkAmount = 4

var walk = []struct {
	at   time.Duration
	cost uint64
}{
	{40 * time.Second, 3},
	{50 * time.Second, 1},
	{55 * time.Second, 1},
	{60 * time.Second, 2},
	{75 * time.Second, 2},
	{100 * time.Second, 1},
}

// walks returns the table of each walk, by the title of its limit.
func walks() (map[string][]byte, error) {
	list, err := subjects(walkAmount)
	if err != nil {
		return nil, err
	}
	tables := map[string][]byte{}
	for _, s := range list[:4] { // the bucket with the default burst
		tables[s.title] = table(s.limit)
	}
	return tables, nil
}

// table walks a limit through the requests.
func table(limit *limiter.Limit) []byte {
	var b bytes.Buffer
	b.WriteString("| at | cost | test | answer | remaining | time |\n|---|---|---|---|---|---|\n")
	var state limiter.State
	for _, r := range walk {
		now := r.at.Microseconds()
		before := state
		decide(limiter.Hit{Limit: limit, Refund: true}, &before, now) // of nothing: it brings the state up to now
		d := decide(limiter.Hit{Limit: limit, Cost: r.cost}, &state, now)
		answer := fmt.Sprintf("admitted | %d | reset after %s", d.Remaining, seconds(d.ResetAfter))
		if d.Over {
			answer = "**denied** | 0 | retry after " + seconds(d.RetryAfter)
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", seconds(r.at), r.cost, arithmetic(limit, before, now, r.cost), answer)
	}
	return b.Bytes()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%d s", d/time.Second) }

func decide(hit limiter.Hit, state *limiter.State, now int64) limiter.Decision {
	var out [1]limiter.Decision
	limiter.Decide([]limiter.Hit{hit}, []*limiter.State{state}, now, out[:])
	return out[0]
}

// arithmetic spells the test that decides whether a cost fits a state at now.
func arithmetic(limit *limiter.Limit, s limiter.State, now int64, cost uint64) string {
	// Both in microseconds, in which limits as small as these count.
	period := limit.Period().Microseconds()
	second := time.Second.Microseconds()
	compare := func(sum, most float64) string {
		if sum <= most {
			return "≤"
		}
		return ">"
	}
	switch limit.Algorithm {
	case limiter.SlidingWindow:
		rest := ((s.At+1)*period - now) / second
		period /= second
		sum, most := s.Prev*rest+(s.Used+int64(cost))*period, walkAmount*period
		return fmt.Sprintf("%d · %d + (%d + %d) · %d = %d %s %d", s.Prev, rest, s.Used, cost, period, sum, compare(float64(sum), float64(most)), most)
	case limiter.TokenBucket:
		level := float64(s.Used) + float64(s.Prev)/float64(period)
		sum := level + float64(cost)
		return fmt.Sprintf("%s + %d = %s %s %d", decimal(level), cost, decimal(sum), compare(sum, walkAmount), walkAmount)
	default:
		return fmt.Sprintf("%d + %d %s %d", s.Used, cost, compare(float64(s.Used+int64(cost)), walkAmount), walkAmount)
	}
}

// decimal writes a number with at most two digits after the point.
func decimal(f float64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", f), "0"), ".")
}
