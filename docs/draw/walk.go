package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"weir/internal/limiter"
)

// walkAmount is the amount per minute of the limits of all walks. A walk is the same six requests for each limit.
const walkAmount = 4

// request is a request of a walk.
type request struct {
	at   int // seconds
	cost int
}

var walk = []request{{40, 3}, {50, 1}, {55, 1}, {60, 2}, {75, 2}, {100, 1}}

// walks returns the tables of all walks, by the title of the limit.
func walks() map[string][]byte {
	tables := map[string][]byte{}
	for _, s := range subjects(walkAmount)[:5] { // without the bucket that has a burst of its own
		tables[s.title] = table(s.limit)
	}
	return tables
}

// table sends the requests of a walk to a limit. Beside each decision it shows the
// calculation by the function arithmetic, which must lead to the same decision.
func table(limit *limiter.Limit) []byte {
	var b bytes.Buffer
	b.WriteString("|at|cost|test|answer|left|time|\n|---|---|---|---|---|---|\n")
	var state limiter.State
	var uses []limiter.Uses
	if hit := (limiter.Hit{Limit: limit}); hit.HasUses() {
		uses = append(uses, hit.NewUses())
	}
	var admitted []request
	for _, r := range walk {
		test, fits := arithmetic(limit, admitted, r)
		d := decide(limit, &state, uses, r)
		if fits == d.Over {
			panic(fmt.Sprintf("at %d s the limit decides otherwise than the test %s", r.at, test))
		}
		answer := "**denied**|0|" + seconds(d.RetryAfter)
		if fits {
			admitted = append(admitted, r)
			answer = fmt.Sprintf("admitted|%d|%s", d.Remaining, seconds(d.ResetAfter))
		}
		fmt.Fprintf(&b, "|%d|%d|%s|%s|\n", r.at, r.cost, test, answer)
	}
	return b.Bytes()
}

func seconds(d time.Duration) string { return fmt.Sprint(int64(d / time.Second)) }

func decide(limit *limiter.Limit, state *limiter.State, uses []limiter.Uses, r request) limiter.Decision {
	var out [1]limiter.Decision
	hits := []limiter.Hit{{Limit: limit, Cost: uint64(r.cost)}}
	limiter.Decide(hits, []*limiter.State{state}, uses, int64(r.at)*1_000_000, out[:])
	return out[0]
}

// arithmetic returns the calculation that decides a request after the admitted requests,
// as text, and whether the request fits.
func arithmetic(limit *limiter.Limit, admitted []request, r request) (test string, fits bool) {
	const period, full = 60, walkAmount * 60
	compare := map[bool]string{true: "≤", false: ">"}
	switch limit.Algorithm {
	case limiter.SlidingWindow:
		previous, count := 0, 0
		for _, a := range admitted {
			switch r.at/period - a.at/period {
			case 0:
				count += a.cost
			case 1:
				previous += a.cost
			}
		}
		rest := period - r.at%period
		sum := previous*rest + (count+r.cost)*period
		fits = sum <= full
		return fmt.Sprintf("%d·%d+(%d+%d)·%d = %d %s %d", previous, rest, count, r.cost, period, sum, compare[fits], full), fits
	case limiter.SlidingLog:
		count := 0
		for _, a := range admitted {
			if a.at > r.at-period {
				count += a.cost
			}
		}
		fits = count+r.cost <= walkAmount
		return fmt.Sprintf("%d+%d %s %d", count, r.cost, compare[fits], walkAmount), fits
	case limiter.TokenBucket:
		const price = period / walkAmount // emission interval of a unit, in seconds
		level, at := 0, 0                 // level is the number of seconds until the bucket is empty
		for _, a := range admitted {
			level, at = max(level-(a.at-at), 0)+a.cost*price, a.at
		}
		level = max(level-(r.at-at), 0)
		sum := level + r.cost*price
		fits = sum <= full/walkAmount
		return fmt.Sprintf("%s+%d = %s %s %d", decimal(level, price), r.cost, decimal(sum, price), compare[fits], walkAmount), fits
	default:
		count, begin := 0, -period
		for _, a := range append(admitted[:len(admitted):len(admitted)], request{at: r.at}) {
			if a.at >= begin+period { // a new window
				count, begin = 0, a.at
				if limit.Algorithm == limiter.FixedWindow {
					begin -= a.at % period
				}
			}
			count += a.cost
		}
		fits = count+r.cost <= walkAmount
		return fmt.Sprintf("%d+%d %s %d", count, r.cost, compare[fits], walkAmount), fits
	}
}

// decimal formats a/b with at most two decimals.
func decimal(a, b int) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", float64(a)/float64(b)), "0"), ".")
}
