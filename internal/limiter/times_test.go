package limiter

import (
	"testing"
	"time"

	"weir/internal/testenv"
)

func TestTimes(t *testing.T) {
	for _, test := range []struct {
		name          string
		of            Spec
		factor        float64
		amount, burst uint64
	}{
		{"more", Spec{RequestsPerUnit: 10, Unit: Minute}, 10, 100, 0},
		{"less", Spec{RequestsPerUnit: 100, Unit: Minute}, 0.29, 29, 0},
		{"one at least", Spec{RequestsPerUnit: 10, Unit: Minute}, 0.001, 1, 0},
		{"nothing", Spec{Unit: Minute}, 1e6, 0, 0},
		{"the same", Spec{RequestsPerUnit: 7, Unit: Minute}, 1, 7, 0},
		{"largest", Spec{RequestsPerUnit: MaxAmount, Unit: Year}, 1e6, MaxAmount, 0},
		{"burst", Spec{RequestsPerUnit: 10, Burst: 30, Unit: Minute, Algorithm: TokenBucket}, 2.5, 25, 75},
		{"flight", Spec{RequestsPerUnit: 10, Unit: Minute, Algorithm: Concurrency}, 3, 30, 0},
		{"bans", Spec{RequestsPerUnit: 10, Unit: Minute, DenyFor: time.Hour}, 2, 20, 0},
	} {
		l := testenv.Must(NewLimit(test.of))(t)
		got := l.Times(test.factor)
		if got.RequestsPerUnit != test.amount || got.Burst != test.burst || got.DenyFor != 0 || l.DenyFor != test.of.DenyFor {
			t.Errorf("%s: got %+v", test.name, got.Spec)
		}
		testenv.Equal(t, string(got.AppendKind(nil)), string(l.AppendKind(nil)), "%s: kind", test.name)
	}
	if l, err := NewLimit(Spec{Unlimited: true}); err != nil || l.Times(2) != l {
		t.Errorf("unlimited: %v", err)
	}
}

// If the algorithm cannot count the multiplied amount, Times returns a smaller amount.
func TestTimesStaysCountable(t *testing.T) {
	for _, of := range []Spec{
		{RequestsPerUnit: 1_000_000, Unit: Year, Algorithm: SlidingWindow},
		{RequestsPerUnit: 1_000_000, Unit: Year, Algorithm: TokenBucket},
		{RequestsPerUnit: 3, Burst: 299, Unit: Year, Algorithm: TokenBucket},
	} {
		l := testenv.Must(NewLimit(of))(t)
		for _, factor := range []float64{0.001, 0.4, 1e6} {
			got := l.Times(factor)
			low, high := scale(of.RequestsPerUnit, min(factor, 1)), scale(of.RequestsPerUnit, max(factor, 1))
			if got.RequestsPerUnit < low || got.RequestsPerUnit > high {
				t.Errorf("%s times %v is %s", l.Rate(), factor, got.Rate())
			}
			if factor > 1 && got.RequestsPerUnit == of.RequestsPerUnit {
				t.Errorf("%s times %v is but %s", l.Rate(), factor, got.Rate())
			}
		}
	}
}
