package memory

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/limiter"
)

// stepped is a store whose machine's clock steps.
type stepped struct {
	*testing.T
	*Store
	passed time.Duration
	wall   time.Time
}

func newStepped(t *testing.T) *stepped {
	s := &stepped{T: t, wall: time.Date(2026, time.January, 2, 3, 0, 0, 0, time.UTC)}
	s.Store = New(Options{})
	s.now = newClock(func() time.Time { return s.wall }, func() time.Duration { return s.passed }).now
	return s
}

// pass lets time pass.
func (s *stepped) pass(d time.Duration) { s.passed, s.wall = s.passed+d, s.wall.Add(d) }

// step sets the clock on the wall.
func (s *stepped) step(d time.Duration) { s.wall = s.wall.Add(d) }

// behind is by how much the store's clock is behind the wall.
func (s *stepped) behind() time.Duration { return s.wall.Sub(time.UnixMicro(s.now())) }

// rounding is what a time in microseconds may differ by, on two courses.
const rounding = 3 * time.Microsecond

// A step of the machine's clock neither admits nor denies anything.
func TestStepsOfTheWall(t *testing.T) {
	for _, step := range []time.Duration{-25 * time.Second, 25 * time.Second, -time.Hour, 2 * time.Hour, -20 * 365 * 24 * time.Hour, 20 * 365 * 24 * time.Hour} {
		for _, spec := range []limiter.Spec{{}, {Anchor: limiter.FirstHit}, {Algorithm: limiter.SlidingWindow}, {Algorithm: limiter.TokenBucket}} {
			spec.Unit, spec.RequestsPerUnit = limiter.Minute, 10
			l, err := limiter.NewLimit(spec)
			if err != nil {
				t.Fatal(err)
			}
			steady, moved := newStepped(t), newStepped(t)
			ahead := 0 // how many more were admitted by the one that steps
			for n := range 600 {
				if n == 200 {
					moved.step(step)
				}
				if n == 220 { // which the clock has hardly followed
					moved.step(-step)
				}
				pass := time.Duration(n%7) * 300 * time.Millisecond
				want, got := steady.askAfter(pass, l), moved.askAfter(pass, l)
				if got.Charged {
					ahead++
				}
				if want.Charged {
					ahead--
				}
				// A hundredth of 20 requests moves the end of a window by half a second at most.
				if ahead < -2 || ahead > 2 || got.RetryAfter > 2*time.Minute {
					t.Fatalf("%+v, step of %v, request %d: %d more admitted; got %+v, want %+v", spec, step, n, ahead, got, want)
				}
			}
		}
	}
}

// askAfter asks for one unit after a while.
func (s *stepped) askAfter(d time.Duration, l *limiter.Limit) limiter.Decision {
	s.pass(d)
	var out [1]limiter.Decision
	_, _ = s.Decide(s.Context(), []limiter.Hit{{Limit: l, Key: []byte("k"), Cost: 1}}, out[:])
	return out[0]
}

// The clock follows the wall in the end, by a hundredth of what passes, and does
// not go back: whether it is read all the time or seldom.
func TestClockFollowsTheWall(t *testing.T) {
	for _, often := range []time.Duration{time.Second, time.Minute, 7 * time.Hour} {
		for _, step := range []time.Duration{-time.Hour, time.Hour, -time.Second, 8 * time.Hour} {
			s := newStepped(t)
			s.pass(time.Minute)
			s.now()
			s.step(step)
			s.pass(look)
			s.now()
			r, from, began := rand.New(rand.NewPCG(1, 2)), s.now(), s.passed
			for s.behind().Abs() > 2*accurate {
				pass := 1 + time.Duration(r.Int64N(int64(often)))
				s.pass(pass)
				now := s.now()
				took := time.Duration(now-from) * time.Microsecond
				if least, most := pass-pass/slew, pass+pass/slew; took < least-rounding || took > most+rounding {
					t.Fatalf("in %v the clock went on by %v", pass, took)
				}
				from = now
				if s.passed-began > slew*step.Abs()+often+2*look {
					t.Fatalf("still %v behind %v after a step of %v", s.behind(), s.passed-began, step)
				}
			}
			if least := slew * (step.Abs() - 3*accurate); s.passed-began < least-often {
				t.Errorf("a step of %v is followed after %v, want at least %v", step, s.passed-began, least)
			}
		}
	}
}

// A step while the clock follows another one leaves no jump behind.
func TestClockFollowsSeveralSteps(t *testing.T) {
	s, r := newStepped(t), rand.New(rand.NewPCG(3, 4))
	for from := s.now(); s.passed < 100*time.Hour; {
		pass := time.Duration(math.Pow(10, 12*r.Float64()))
		s.pass(pass)
		if r.IntN(5) == 0 {
			s.step(time.Duration(r.Int64N(int64(time.Hour))) - 30*time.Minute)
		}
		now := s.now()
		if took := time.Duration(now-from) * time.Microsecond; took < 0 || (took-pass).Abs() > pass/slew+rounding {
			t.Fatalf("in %v the clock went on by %v", pass, took)
		}
		from = now
	}
}
