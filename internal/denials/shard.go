package denials

import (
	"sync"
	"time"

	"weir/internal/limiter"
)

// The sub-windows of a shard. The one that is counted in is among them, so a minute is
// the last 50 to 60 seconds.
const (
	partSeconds = 10
	minuteParts = 6
	hourSeconds = 300
	hourParts   = 12
	partsOfHour = hourSeconds / partSeconds // of a part of the hour
)

// shard knows the denials of some keys.
type shard struct {
	mu    sync.Mutex
	tens  [minuteParts]sketch // by the number of the sub-window, seconds since the epoch / 10
	fives [hourParts]sketch   // likewise, without those of the current one of tens
	ten   int64               // the current sub-window
	last  ring
}

// rotate begins the sub-window of now, unless a later one has begun.
func (s *shard) rotate(now int64) {
	ten := now / partSeconds
	if ten-s.ten > partsOfHour*hourParts { // all is too old
		for i := range s.tens {
			s.tens[i].reset()
		}
		for i := range s.fives {
			s.fives[i].reset()
		}
		s.ten = ten
	}
	for s.ten < ten {
		five := &s.fives[s.ten/partsOfHour%hourParts]
		five.merge(&s.tens[s.ten%minuteParts], size)
		five.clip()
		s.ten++
		s.tens[s.ten%minuteParts].reset()
		if s.ten%partsOfHour == 0 {
			s.fives[s.ten/partsOfHour%hourParts].reset()
		}
	}
}

// minute returns a sketch of the last minute that is the caller's, and when it begins.
func (s *shard) minute() (sum *sketch, from int64) {
	sum = new(sketch)
	for i := range s.tens {
		sum.merge(&s.tens[i], minuteParts*size)
	}
	return sum, (s.ten - minuteParts + 1) * partSeconds
}

// hour is minute for the last hour.
func (s *shard) hour() (sum *sketch, from int64) {
	sum = new(sketch)
	for i := range s.fives {
		sum.merge(&s.fives[i], hourParts*size)
	}
	sum.merge(&s.tens[s.ten%minuteParts], hourParts*size)
	return sum, (s.ten/partsOfHour - hourParts + 1) * hourSeconds
}

// lastOfShard is how many denials a shard remembers one by one.
const lastOfShard = 100

// ring holds the last denials.
type ring struct {
	denials [lastOfShard]denial
	next    int // the oldest, or one that is not used
}

type denial struct {
	at         time.Time // zero: not used
	limit      *limiter.Limit
	retryAfter time.Duration
	shadow     bool
	text       []byte // as of excerpt
}

// add forgets the oldest denial for d.
func (r *ring) add(now time.Time, d *Denial, text []byte) {
	to := &r.denials[r.next]
	to.at, to.limit, to.retryAfter, to.shadow, to.text = now, d.Limit, d.RetryAfter, d.Shadow, keep(to.text, text)
	r.next = (r.next + 1) % lastOfShard
}
