package redisconn

import "time"

// Patience is how long somebody waits for Redis, not counting the time in which this
// process did not run: others had the processors, its container had used up its share of
// them, or it was stopped. When it runs again, its timers end before anybody has read
// what Redis sent meanwhile.
//
// So a wait is divided into a few looks. One that ends late by its own length says
// nothing about Redis and does not count.
type Patience struct{ left, each time.Duration }

// looks is how many looks there are. Each costs a waiting goroutine one wake-up.
const looks = 4

// NewPatience returns a patience of so long.
func NewPatience(timeout time.Duration) Patience {
	return Patience{timeout, (timeout + looks - 1) / looks}
}

// More reports whether there is time for another look.
func (p *Patience) More() bool { return p.left > 0 }

// Look returns how long the next look may take.
func (p *Patience) Look() time.Duration { return min(p.left, p.each) }

// Spend notes that a look took so long.
func (p *Patience) Spend(took time.Duration) {
	if took < 2*p.each {
		p.left -= min(took, p.each)
	}
}
