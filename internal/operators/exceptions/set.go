package exceptions

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"

	"weir/internal/limiter"
)

// Set is the exceptions in force at one time. It is immutable. A nil Set has none.
type Set struct {
	all     []*Exception // the newest first
	lengths []int        // how many entries they have, ascending, each number once
	seed    maphash.Seed // not known to clients, so that no values meet in one hash on purpose
	index   map[uint64][]*Exception
}

// newSet returns the set of exceptions, nil if there are none. Of those for the same
// descriptors, only the newest applies.
func newSet(all []*Exception) *Set {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *Exception) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
	s := &Set{all: all, seed: maphash.MakeSeed(), index: make(map[uint64][]*Exception, len(all))}
	for _, e := range all {
		p := s.begin(e.Domain)
		for _, entry := range e.Entries {
			p.add(entry)
		}
		sum, length := p.Sum64(), len(e.Entries)
		s.index[sum] = append(s.index[sum], e) // the newest first
		if i, found := slices.BinarySearch(s.lengths, length); !found {
			s.lengths = slices.Insert(s.lengths, i, length)
		}
	}
	return s
}

// All returns the exceptions, the newest first. They must not be changed.
func (s *Set) All() []*Exception {
	if s == nil {
		return nil
	}
	return s.all
}

// prefix is the hash of the first entries of a descriptor.
type prefix struct{ maphash.Hash }

func (s *Set) begin(domain string) (p prefix) {
	p.SetSeed(s.seed)
	_, _ = p.WriteString(domain)
	return p
}

// add adds one entry. Other entries may have the same bytes, and so the same hash, which
// appliesTo tells apart.
func (p *prefix) add(e limiter.Entry) {
	_, _ = p.WriteString(e.Key)
	_ = p.WriteByte(0)
	_, _ = p.WriteString(e.Value)
	_ = p.WriteByte(0)
}

// Find returns the exception that applies to a descriptor, nil if none does: of those
// whose entries the descriptor begins with the one that has most. It looks into a map once
// for each number of entries that exceptions have, and does not allocate.
func (s *Set) Find(domain string, entries []limiter.Entry) (found *Exception) {
	if s == nil {
		return nil
	}
	p, n := s.begin(domain), 0
	for _, length := range s.lengths {
		if length > len(entries) {
			break
		}
		for ; n < length; n++ {
			if len(entries[n].Key) > maxText || len(entries[n].Value) > maxText {
				return found // no exception has so long a text
			}
			p.add(entries[n])
		}
		for _, e := range s.index[p.Sum64()] {
			if len(e.Entries) == length && e.appliesTo(domain, entries) {
				found = e
				break
			}
		}
	}
	return found
}
