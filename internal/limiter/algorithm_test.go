package limiter

import (
	"math"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// Every algorithm has all its parts. Without some of them, a limit would be loaded but would
// count on the counters of another algorithm, or not at all. The packages redis and storetest
// test their own parts.
func TestEveryAlgorithmIsComplete(t *testing.T) {
	letters := map[string]string{string(vetoLetter): "what an exception denies"}
	for i, row := range algorithms {
		lacks := func(what string, args ...any) {
			t.Helper()
			t.Errorf("algorithm %d, %q, lacks "+what, append([]any{i, row.word}, args...)...)
		}
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(row.word) {
			lacks("a word of small letters and _")
		}
		if of, taken := letters[row.letter]; taken && Algorithm(i) != ByCalendar || len(row.letter) > 1 || row.letter != strings.ToLower(row.letter) {
			lacks("a small letter of its own in keys, %q is that of %q", row.letter, of)
		}
		letters[row.letter] = row.word
		if row.new == nil {
			lacks("a constructor")
		}
		if newExactCounter[Algorithm(i)] == nil {
			lacks("a judge, in newExactCounter")
		}
		if _, err := os.Stat("redis/wire/lua/" + row.word + ".lua"); err != nil {
			lacks("a script: %v", err)
		}
		for page, what := range map[string]string{"rules.md": "its word", "algorithms.md": "a paragraph"} {
			text := testenv.Must(os.ReadFile("../../docs/" + page))(t)
			if !strings.Contains(string(text), "`"+row.word+"`") {
				lacks("%s in docs/%s", what, page)
			}
		}
	}
}

// extremes returns limits with the smallest and largest numbers, and some between.
func extremes() []Spec {
	const prime = math.MaxUint32 - 4 // has no divisor in common with any period
	var specs []Spec
	for unit := Second; unit <= Year; unit++ {
		for _, multiplier := range []uint32{1, 7, uint32(MaxPeriod / unit.Duration())} {
			for _, amount := range []uint64{0, 1, 7, 1000, 1_000_000, 25_000_000, prime, math.MaxUint32, 4_503_599_627, 9_007_199_254, 1 << 40, MaxAmount - 27, MaxAmount} {
				for a := range algorithms {
					s := Spec{RequestsPerUnit: amount, Unit: unit, UnitMultiplier: multiplier, Algorithm: Algorithm(a)}
					if s.Algorithm == ByCalendar && multiplier > 1 {
						continue // the multiple may not divide the calendar
					}
					for _, burst := range []uint64{0, 1, 1000, prime, math.MaxUint32, 1 << 40, MaxAmount - 27, MaxAmount} {
						if s.Burst = burst; burst == 0 || s.Algorithm.Takes(BurstOption) {
							specs = append(specs, s)
						}
					}
				}
			}
		}
	}
	return specs
}

// No number that a store in Lua computes exceeds 2^53, up to which Lua's numbers are exact. A
// limit is refused only if a number would, or if a Duration could not represent its times.
func TestNumbersAreExact(t *testing.T) {
	accepted, refused := 0, 0
	for _, s := range extremes() {
		l, err := NewLimit(s)
		exact := largest(&s).Cmp(big.NewInt(1<<53)) <= 0
		if want := exact && refill(&s) <= MaxPeriod; (err == nil) != want {
			t.Errorf("%+v: error %v, want one: %v", s, err, !want)
		}
		if err != nil {
			refused++
			continue
		}
		accepted++
		checkEnd(t, l)
	}
	if accepted == 0 || refused == 0 {
		t.Errorf("%d limits are accepted and %d refused, want some of both", accepted, refused)
	}
}

// largest returns the largest number that a store in Lua computes for the limit. Lua multiplies
// units by whole seconds, and then by the remaining microseconds, up to a second. To the second
// product, it adds the remainder of the first one, in microseconds.
func largest(s *Spec) *big.Int {
	seconds, second := big.NewInt(int64(s.Period()/time.Second)), big.NewInt(1_000_000)
	amount := big.NewInt(max(int64(s.RequestsPerUnit), 1))
	product := func(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
	sum := func(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }
	within := func(units *big.Int) *big.Int { return sum(product(units, second), product(seconds, second)) }
	switch s.Algorithm {
	case SlidingWindow:
		debt := product(amount, big.NewInt(2)) // the largest use, which must be countable
		return slices.MaxFunc([]*big.Int{product(debt, seconds), within(debt)}, (*big.Int).Cmp)
	case TokenBucket:
		divisor := new(big.Int).GCD(nil, nil, amount, seconds)
		brim := sum(big.NewInt(int64(s.Size())), amount)
		return slices.MaxFunc([]*big.Int{product(brim, new(big.Int).Div(seconds, divisor)), within(amount)}, (*big.Int).Cmp)
	case SlidingLog:
		return product(amount, big.NewInt(1<<53/MaxLogged)) // not the numbers, but the length of the log is bounded
	default:
		return big.NewInt(1 << 53) // the sum of two counts
	}
}

// refill returns the time in which an empty bucket refills.
func refill(s *Spec) time.Duration {
	if s.Algorithm != TokenBucket || s.RequestsPerUnit == 0 {
		return 0
	}
	micros := new(big.Int).Mul(big.NewInt(int64(s.Size())), big.NewInt(s.Period().Microseconds()))
	micros = ceil(new(big.Rat).SetFrac(micros, big.NewInt(int64(s.RequestsPerUnit))))
	if !micros.IsInt64() || micros.Int64() > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(micros.Int64()) * time.Microsecond
}

// checkEnd checks that a window of a distant year ends at a time that Lua can represent, and
// that a counter with the largest use is reset in a time that Lua and a Duration can represent.
func checkEnd(t *testing.T, l *Limit) {
	t.Helper()
	now := time.Date(2110, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	full := l.counting.add(l.roll(State{}, now), l.maxCost)
	period := l.Period().Microseconds()
	if end := (now/period + 1) * period; end >= 1<<53 || l.Expiry(full)-now >= 1<<53 || full.Used > 1<<53 || full.Prev > 1<<53 || full.Used < int64(l.Size()) {
		t.Errorf("%+v: %+v ends at %d", l.Spec, full, l.Expiry(full))
	}
	reset := l.Counter(full, now).WholeIn
	if left := (l.Expiry(full) - now) * 1000; reset <= 0 || int64(reset) != left || reset > 2*MaxPeriod {
		t.Errorf("%+v: %+v is whole after %v, %d ns", l.Spec, full, reset, left)
	}
}
