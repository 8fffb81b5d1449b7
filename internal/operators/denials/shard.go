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

// shard knows the denials of some keys. What each denial needs comes first, in one line of
// the processor's cache: between two denials the rest of a request pushes all out of it, and
// to get it back is most of what a denial costs.
type shard struct {
	mu    sync.Mutex
	ten   int64 // the current sub-window
	last  ring
	tens  [minuteParts]sketch // by the number of the sub-window, seconds since the epoch / 10
	fives [hourParts]sketch   // likewise, without those of the current one of tens

	_ [8]byte // of a multiple of such lines
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
		five, ended := &s.fives[s.ten/partsOfHour%hourParts], &s.tens[s.ten%minuteParts]
		five.merge(ended, keptSize)
		five.clip()
		ended.shrink(keptSize)
		ended.clip()
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
		sum.merge(&s.fives[i], hourParts*keptSize)
	}
	sum.merge(&s.tens[s.ten%minuteParts], hourParts*keptSize)
	return sum, (s.ten/partsOfHour - hourParts + 1) * hourSeconds
}

// lastOfShard is how many denials a shard remembers one by one, and betweenLast the time in
// which it takes no more than that: those of a flood are not there long enough to be read.
const (
	lastOfShard = 100
	betweenLast = 100 * time.Millisecond
)

// ring holds the last denials.
type ring struct {
	began   time.Time // of the time in which taken were taken
	taken   int
	next    int // the oldest, or one that is not used
	denials [lastOfShard]denial
}

// takes reports whether a denial at now is to be added.
func (r *ring) takes(now time.Time) bool {
	if passed := now.Sub(r.began); passed >= betweenLast || passed < 0 { // or the clock stepped back
		r.began, r.taken = now, 0
	}
	r.taken++
	return r.taken <= lastOfShard
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
