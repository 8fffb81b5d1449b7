// Package denials knows which keys are denied most, and what was denied last, in a
// bounded number of bytes, however many limits and keys there are.
//
//	sketch.go   sketch: the keys denied most, in a bounded number of counters
//	shard.go    shard: the sketches of the last hour, and the last denials
//	denials.go  Recorder: the denials of requests, spread over shards
//	summary.go  Summary: what is known, as JSON
//	merge.go    Merge: the summaries of several processes -> one
//
// It decides nothing and keeps nothing of rules but their limits.
package denials

import (
	"hash/maphash"
	"math/bits"
	"time"

	"weir/internal/limiter"
	"weir/internal/operators/excerpt"
)

// Denial is a hit that denied its request, or would have.
type Denial struct {
	Limit *limiter.Limit
	excerpt.Source
	RetryAfter time.Duration // or limiter.Never
	Shadow     bool          // the request was not denied, because of a shadow mode
}

// shards is how many parts a Recorder has, each with its own lock: a key has one.
const shards = 8

// Recorder takes denials. It is safe for concurrent use.
type Recorder struct {
	began  time.Time // for a monotonic clock
	seed   maphash.Seed
	_      [32]byte // see shard
	shards [shards]shard
}

// New returns a Recorder that begins now.
func New(now time.Time) *Recorder {
	return &Recorder{began: now, seed: maphash.MakeSeed()}
}

// Record takes a denial, of which it keeps neither bytes nor slices. It does not
// allocate, but for what it keeps for good.
func (r *Recorder) Record(now time.Time, d *Denial) {
	group, key := r.hash(d)
	s := &r.shards[key>>(64-3)]
	seconds := r.seconds(now)
	s.mu.Lock()
	s.rotate(seconds)
	c := s.tens[s.ten%minuteParts].add(group, key, d, seconds)
	if s.last.takes(now) {
		if len(c.text) == 0 {
			c.spell(d)
		}
		s.last.add(now, d, c.text)
	}
	s.mu.Unlock()
}

// hash returns what stands for the limit, and for its counter. The seed is not known to
// clients, so they cannot make two keys look like one.
func (r *Recorder) hash(d *Denial) (group, key uint64) {
	group = d.Limit.SeriesHash()
	if d.Shadow {
		group = ^group
	}
	return group, (maphash.Bytes(r.seed, d.Key) ^ bits.RotateLeft64(group, 32)) * 0x9E3779B97F4A7C15
}

// seconds is the time since the epoch by a clock that does not step: windows begin
// at the same time in all processes, as far as their clocks agree at their start.
func (r *Recorder) seconds(now time.Time) int64 {
	return r.began.Unix() + int64(max(now.Sub(r.began), 0)/time.Second)
}
