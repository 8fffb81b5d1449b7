package descriptors

import (
	"iter"

	"weir/internal/limiter"
)

// Limits yields the limits of all rules, in the order of the files.
func (t *Tree) Limits() iter.Seq[*limiter.Limit] {
	return func(yield func(*limiter.Limit) bool) {
		for _, r := range t.rules {
			for _, l := range r.Limits {
				if !yield(l) {
					return
				}
			}
		}
	}
}
