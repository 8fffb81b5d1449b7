package limiter

import "bytes"

// Counters tells which hits of one request share a counter. Requests of few hits,
// which are the usual ones, cost it no memory; those of many, which a client may
// send to do harm, time in proportion to their hits.
type Counters struct {
	hits  []Hit
	first map[string]int // the first hit on each key; nil for few hits, and until somebody asks
}

// few is up to how many hits comparing all with each other costs less than a map.
const few = 16

// CountersOf returns the Counters of hits, which must not change meanwhile.
func CountersOf(hits []Hit) Counters { return Counters{hits: hits} }

// First returns the first hit on the counter of hit i, which may be i itself.
func (c *Counters) First(i int) (first int) {
	key := c.hits[i].Key
	if len(c.hits) <= few {
		for !bytes.Equal(c.hits[first].Key, key) {
			first++
		}
		return first
	}
	if c.first == nil {
		c.first = make(map[string]int, len(c.hits))
		for j := range c.hits {
			if _, known := c.first[string(c.hits[j].Key)]; !known {
				c.first[string(c.hits[j].Key)] = j
			}
		}
	}
	return c.first[string(key)]
}
