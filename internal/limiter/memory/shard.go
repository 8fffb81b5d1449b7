package memory

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"weir/internal/limiter"
)

// shard is a part of the counters, under one lock.
type shard struct {
	mu      sync.Mutex
	n, max  uint32        // counters, and how many to keep at most
	turn    atomic.Uint64 // which shard requests of this one cleared last
	tables  []*table      // by the steps of their keys, nil where no key ever was
	due     int64         // before which no counter is
	present uint32        // the classes that hold counters, as a mask
	orders  [classes]order
	bans    map[ref]int64     // until when, of the counters that are banned; nil if there are none
	holds   map[string]*holds // by the keys of their counters
	held    uint32            // what they weigh, in counters

	_ [64]byte // keeps shards in cache lines of their own
}

func (s *shard) init(maxCounters int) {
	s.max = uint32(min(uint64(maxCounters), uint64(none)))
	s.due = math.MaxInt64
	for class := range s.orders {
		s.orders[class].width = 1
	}
}

// find returns the counter of key, nil if there is none. It is valid until a
// counter is added or dropped.
func (s *shard) find(hash uint32, key []byte) *counter {
	steps := keySteps(key)
	if steps >= len(s.tables) || s.tables[steps] == nil {
		return nil
	}
	return s.tables[steps].find(hash, key)
}

// add adds a counter for a key that has none. It reports whether another one that
// still mattered at now had to make room.
func (s *shard) add(hash uint32, key []byte, state limiter.State, v value, now int64) (evicted bool) {
	if s.size() >= s.max && s.n > 0 {
		evicted = s.makeRoom(now)
	}
	steps := keySteps(key)
	if steps >= len(s.tables) {
		s.tables = append(s.tables, make([]*table, steps+1-len(s.tables))...)
	}
	if s.tables[steps] == nil {
		s.tables[steps] = newTable(steps)
	}
	i := s.tables[steps].add(hash, key, state)
	c := s.tables[steps].counters.at(i)
	c.uses, *c.expiry() = 1, v.expiry
	s.file(classOf(c.uses, v.until > 0), due{v.due(), uint32(steps), i})
	s.setBan(c, state.Until)
	s.n++
	return evicted
}

// asked notes that a counter was asked for, and what it is kept for since.
func (s *shard) asked(c *counter, v value, now int64) {
	if *c.expiry() <= now {
		c.uses = 0
	}
	if c.uses < math.MaxUint8 {
		c.uses++
	}
	class := classOf(c.uses, v.until > 0)
	if class == c.class && class < denying && *c.expiry() == v.expiry {
		return // filed as it is, as most are
	}
	*c.expiry() = v.expiry
	s.refile(c, class, v.due())
}

// makeRoom drops what has expired or, if that is nothing, a counter of the lowest
// class, and reports whether that still mattered. First it looks at some that are
// due, so that no counter which denies goes while there is one whose denial is over.
func (s *shard) makeRoom(now int64) (evicted bool) {
	s.clear(now, clearedPerEviction)
	if s.size() < s.max {
		return false
	}
	if lowest := bits.TrailingZeros32(s.present); lowest < denying {
		s.drop(*s.orders[lowest].at(0))
	} else {
		s.drop(s.orders[lowest].turn())
	}
	return true
}

// clear looks at up to n counters that are due at now. It drops those that have
// expired. What no longer denies gets the class of those that do not, and is due
// at its expiry.
func (s *shard) clear(now int64, n int) {
	for ; n > 0 && s.due <= now; n-- {
		first := due{at: math.MaxInt64}
		for rest := s.present; rest != 0; rest &= rest - 1 {
			if d := *s.orders[bits.TrailingZeros32(rest)].at(0); d.at < first.at {
				first = d
			}
		}
		if s.due = first.at; s.due > now {
			return
		}
		if c := s.tables[first.table].counters.at(first.counter); *c.expiry() <= now {
			s.drop(first)
		} else {
			s.refile(c, c.class-denying, *c.expiry())
		}
	}
}

// tryClear is clear of a shard that is not locked, unless others are just at work
// there.
func (s *shard) tryClear(now int64, n int) {
	if s.mu.TryLock() {
		s.clear(now, n)
		s.mu.Unlock()
	}
}

// drop drops a counter.
func (s *shard) drop(d due) {
	t := s.tables[d.table]
	if len(s.holds) > 0 {
		s.forgetHolds(t.key(d.counter))
	}
	s.setBan(t.counters.at(d.counter), 0)
	s.unfile(t.counters.at(d.counter))
	if t.remove(d.counter) {
		moved := t.counters.at(d.counter)
		until := s.until(moved)
		s.setBan(moved, 0)
		s.orders[moved.class].at(moved.place).counter = d.counter
		s.setBan(moved, until)
	}
	s.n--
}
