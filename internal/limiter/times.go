package limiter

import "math"

// Times returns a limit of factor times the amount of l and of its burst, which counts on
// the same counters: so what is used counts. It has no bans, and bans in force do not hold
// for it. Amounts are rounded, at least 1, and as near to that as the algorithm can count;
// one of 0 stays 0.
func (l *Limit) Times(factor float64) *Limit {
	if l.Unlimited {
		return l
	}
	times, err := l.times(factor)
	if err == nil {
		return times
	}
	// The amount itself can be counted.
	good, bad := 1., factor
	if times, err = l.times(good); err != nil {
		return l // never: it was counted with bans
	}
	for range 64 { // halves of a logarithm that is exact in fewer
		middle := math.Sqrt(good * bad)
		if middle >= 2 {
			middle = math.Floor(middle) // a bucket can count more if the amount has more in common with the period
		}
		if near, err := l.times(middle); err == nil {
			good, times = middle, near
		} else {
			bad = middle
		}
	}
	return times
}

// Base returns the limit of which l is a multiple by Times, else l.
func (l *Limit) Base() *Limit {
	if l.base != nil {
		return l.base
	}
	return l
}

// times fails if the algorithm cannot count so much, or a bucket would take too long.
func (l *Limit) times(factor float64) (*Limit, error) {
	s := l.Spec
	s.RequestsPerUnit, s.Burst, s.DenyFor = scale(s.RequestsPerUnit, factor), scale(s.Burst, factor), 0
	times, err := NewLimit(s)
	if err != nil {
		return nil, err
	}
	times.base = l.Base()
	return times, nil
}

func scale(amount uint64, factor float64) uint64 {
	if amount == 0 {
		return 0
	}
	return uint64(min(max(math.Round(float64(amount)*factor), 1), MaxAmount))
}
