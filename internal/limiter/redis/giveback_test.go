package redis

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// FuzzGiveBack lets the script and limiter.GiveBack take back the same charges,
// made of any bytes: the limit, what others do in between, the clock.
func FuzzGiveBack(f *testing.F) {
	f.Add([]byte(nil))
	for n := range 8 {
		seed := make([]byte, 120)
		for i := range seed {
			seed[i] = byte(i*i*37 + n*29)
		}
		f.Add(seed)
	}
	redis := miniredis.RunT(f)
	var now int64
	s := open(f, Options{Main: at(redis.Addr()), Now: func() time.Time { return time.UnixMicro(now) }})
	run := func(t *testing.T, b *batch) {
		t.Helper()
		if call(s, b); b.err != nil {
			t.Fatal(b.err)
		}
	}
	// stateAfter is what the script leaves of the first counter.
	stateAfter := func(t *testing.T, b *batch) limiter.State {
		t.Helper()
		states := testenv.Must(ticket{b, 0}.outcomes(make([]limiter.Decision, 1), nil))(t)
		return states[0]
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		redis.FlushAll()
		in := input{data}
		now = in.time(0)
		hit := in.hit()
		for hit.Hold != nil { // see TestGiveBackOfHolds
			hit = in.hit()
		}
		charge := func(h limiter.Hit) limiter.State {
			h.Always = !h.Refund
			h.Cost = max(h.Cost, 1)
			b := newBatch(0, 0)
			b.add([]limiter.Hit{h}, false)
			run(t, b)
			return stateAfter(t, b)
		}
		if in.byte()%2 == 0 { // somebody was there before
			now = in.time(now)
			charge(hit)
		}
		hit.Refund, hit.Cost = false, in.number()
		state := charge(hit)
		g := giveBack{Hit: limiter.Hit{Key: hit.Key, Limit: hit.Limit, Cost: max(hit.Cost, 1)}, charged: state}
		if in.byte()%2 == 0 { // somebody comes in between
			now = in.time(now)
			hit.Refund, hit.Cost = in.byte()%4 == 0, in.number()
			state = charge(hit)
		}
		now = in.time(now)
		b := newBatch(0, 0)
		b.addGiveBack(g)
		run(t, b)

		want := hit.Limit.GiveBack(state, g.charged, g.CountedCost(), now)
		got := stateAfter(t, b)
		if hit.Limit.Expiry(want) <= now { // as good as unused
			want = limiter.State{}
		}
		if hit.Limit.Expiry(got) <= now {
			got = limiter.State{}
		}
		if got != want {
			t.Errorf("at %d, %+v of limit %+v on %+v:\n got %+v\nwant %+v", now, g, hit.Limit.Spec, state, got, want)
		}
	})
}
