package limiter

import "math"

// Times returns a limit of factor times the amount of l and of its burst, which counts on
// the same counters: so what is used counts. It has no bans, and bans in force do not hold
// for it. Amounts are rounded, and at least 1; one of 0 stays 0. Where the algorithm cannot
// count so much, the factor is its root.
func (l *Limit) Times(factor float64) *Limit {
	if l.Unlimited {
		return l
	}
	for range 64 { // roots of any factor come to 1
		s := l.Spec
		s.RequestsPerUnit, s.Burst, s.DenyFor = scale(s.RequestsPerUnit, factor), scale(s.Burst, factor), 0
		if times, err := NewLimit(s); err == nil {
			return times
		}
		if factor = math.Sqrt(factor); factor >= 2 {
			factor = math.Floor(factor) // a bucket can count more if the amount has more in common with the period
		}
	}
	return l
}

func scale(amount uint64, factor float64) uint64 {
	if amount == 0 {
		return 0
	}
	return uint64(min(max(math.Round(float64(amount)*factor), 1), MaxAmount))
}
