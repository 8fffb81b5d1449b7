package storetest

import (
	"encoding/binary"
	"time"

	"weir/internal/limiter"
)

// Must makes a limit from a valid Spec.
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
	// two admits two holds at once, each for at most a minute.
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

// name returns the name of a hold.
func name(n uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, limiter.HoldSize-8), n)
}

// reservation returns the key of a record of a counter, in the slot of the counter. Keys of
// limiter.Keys for a cluster have a hash tag, but keys of tests have none.
func reservation(key string, n uint64) []byte {
	return limiter.AppendReservation([]byte("{"+key+"}"), name(n))
}

// hold takes the hold with number n, and release releases it.
func hold(l *limiter.Limit, n uint64) limiter.Hit {
	return limiter.Hit{Key: []byte("a"), Limit: l, Cost: 1, Hold: name(n)}
}

func release(l *limiter.Limit, n uint64) limiter.Hit {
	return limiter.Hit{Key: []byte("a"), Limit: l, Cost: 1, Hold: name(n), Refund: true}
}
