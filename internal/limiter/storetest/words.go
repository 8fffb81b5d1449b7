package storetest

import (
	"encoding/binary"
	"time"

	"weir/internal/limiter"
)

// Must makes a limit from a valid Spec. It panics if s is not valid.
func Must(s limiter.Spec) *limiter.Limit { return limiter.MustLimit(s) }

func per(amount uint64, unit limiter.Unit) *limiter.Limit {
	return Must(limiter.Spec{RequestsPerUnit: amount, Unit: unit})
}

// enforced returns an enforced limit per minute.
func enforced(amount uint64) *limiter.Limit { return per(amount, limiter.Minute) }

const (
	second = time.Second
	ban    = 10 * time.Minute
)

var (
	three = enforced(3)
	// banning bans clients that exceed three per minute.
	banning = Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute, DenyFor: ban})
	// two admits two holds at the same time, each for at most a minute.
	two = Must(limiter.Spec{RequestsPerUnit: 2, Unit: limiter.Minute, Algorithm: limiter.Concurrency})
)

func request(hits ...limiter.Hit) []limiter.Hit { return hits }

func take(key string, l *limiter.Limit, cost uint64) limiter.Hit {
	return limiter.Hit{Key: []byte(key), Limit: l, Cost: cost}
}

func peek(key string, l *limiter.Limit) limiter.Hit { return take(key, l, 0) }

func refund(key string, l *limiter.Limit, cost uint64) limiter.Hit {
	return limiter.Hit{Key: []byte(key), Limit: l, Cost: cost, Refund: true}
}

func always(key string, l *limiter.Limit, cost uint64) limiter.Hit {
	return limiter.Hit{Key: []byte(key), Limit: l, Cost: cost, Always: true}
}

// name returns the name of the hold or reservation with number n.
func name(n uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, limiter.HoldSize-8), n)
}

// reservation returns the key of record n of a counter, in the counter's hash slot. The keys of
// counters in tests have no hash tag, so the full key becomes the tag.
func reservation(key string, n uint64) []byte {
	return limiter.AppendReservation([]byte("{"+key+"}"), name(n))
}

// hold returns a hit that takes hold n, and release returns a hit that releases hold n.
func hold(l *limiter.Limit, n uint64) limiter.Hit {
	return limiter.Hit{Key: []byte("a"), Limit: l, Cost: 1, Hold: name(n)}
}

func release(l *limiter.Limit, n uint64) limiter.Hit {
	return limiter.Hit{Key: []byte("a"), Limit: l, Cost: 1, Hold: name(n), Refund: true}
}
