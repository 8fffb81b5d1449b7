package memory

import "math/bits"

// A table finds its counters by linear hashing (W. Litwin, 1980): a hash table
// with a chain of counters for each bucket, which grows by one bucket for each
// counter. A new bucket takes its share of one other. So there is never a
// moment at which all counters must be filed anew.

// none ends a chain.
const none uint32 = 1<<32 - 1

// bucketOf returns in which of n buckets a hash belongs: in that which its low bits
// name or, while there is none of that number, in that which it will split from.
func bucketOf(hash, n uint32) uint32 {
	b := hash & (1<<bits.Len32(n-1) - 1)
	if b >= n {
		b = splitFrom(b)
	}
	return b
}

// splitFrom returns which bucket shared its counters with bucket b > 0 when that
// was added: the one that b is without its highest bit.
func splitFrom(b uint32) uint32 { return b &^ (1 << (bits.Len32(b) - 1)) }

// bucket returns where the chain of a hash starts.
func (t *table) bucket(hash uint32) *uint32 {
	return t.buckets.at(bucketOf(hash, t.buckets.n))
}

// linkTo returns the link to counter i: its bucket or the next of another.
func (t *table) linkTo(i uint32) *uint32 {
	link := t.bucket(t.counters.at(i).hash)
	for *link != i {
		link = &t.counters.at(*link).next
	}
	return link
}

func (t *table) link(i uint32) {
	c := t.counters.at(i)
	first := t.bucket(c.hash)
	c.next, *first = *first, i
}

func (t *table) unlink(i uint32) { *t.linkTo(i) = t.counters.at(i).next }

// addBucket adds a bucket and moves counters there that now belong to it.
func (t *table) addBucket() {
	added := t.buckets.n
	t.buckets.grow()[0] = none
	if added == 0 {
		return
	}
	link := t.buckets.at(splitFrom(added))
	for *link != none {
		i := *link
		c := t.counters.at(i)
		if bucketOf(c.hash, added+1) == added {
			*link = c.next
			t.link(i)
		} else {
			link = &c.next
		}
	}
}

// removeBucket removes the last bucket and moves its counters back to where they
// would be without it.
func (t *table) removeBucket() {
	removed := t.buckets.n - 1
	chain := *t.buckets.at(removed)
	t.buckets.shrink()
	if chain == none {
		return
	}
	end := t.buckets.at(splitFrom(removed))
	for *end != none {
		end = &t.counters.at(*end).next
	}
	*end = chain
}
