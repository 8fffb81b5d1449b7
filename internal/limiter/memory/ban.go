package memory

// Few counters are banned. Until when is in a map of their shard, so that the others
// need no memory for it: where limiter.State has it, a counter has its expiry. While a
// request is decided, its counters lend it their states as limiter has them.

// What a counter is.
const (
	banned uint8 = 1 << iota // it has an entry in shard.bans
	lent                     // to the request that is being decided
)

// expiry is when the state of a counter that is not lent no longer matters, in
// microseconds since the epoch.
func (c *counter) expiry() *int64 { return &c.state.Until }

// lend lends the state of a counter, and returns its expiry.
func (s *shard) lend(c *counter) (expiry int64) {
	expiry = *c.expiry()
	c.state.Until = s.until(c)
	c.is |= lent
	return expiry
}

// takeBack takes the state of a counter back.
func (s *shard) takeBack(c *counter, expiry int64) {
	if c.state.Until > 0 || c.is&banned != 0 {
		s.setBan(c, c.state.Until)
	}
	*c.expiry() = expiry
	c.is &^= lent
}

// ref names a counter of a shard: its table, and its number there.
type ref struct{ table, counter uint32 }

func (s *shard) ref(c *counter) ref {
	d := s.orders[c.class].at(c.place)
	return ref{d.table, d.counter}
}

// until returns until when a counter is banned, 0 if it is not.
func (s *shard) until(c *counter) int64 {
	if c.is&banned == 0 {
		return 0
	}
	return s.bans[s.ref(c)]
}

// setBan sets until when a counter is banned, 0 for not at all.
func (s *shard) setBan(c *counter, until int64) {
	switch {
	case until > 0:
		if s.bans == nil {
			s.bans = map[ref]int64{}
		}
		s.bans[s.ref(c)] = until
		c.is |= banned
	case c.is&banned != 0:
		delete(s.bans, s.ref(c))
		if len(s.bans) == 0 {
			s.bans = nil // a map keeps the memory of what is deleted
		}
		c.is &^= banned
	}
}
