package redis

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/queue"
	"weir/internal/limiter/redis/wire"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// FuzzDecide compares the script with limiter.Decide on batches with arbitrary hits, keys and
// times.
func FuzzDecide(f *testing.F) {
	f.Add([]byte("the same counter twice, in two batches"))
	var now int64
	redis, s := startFuzzing(f, &now)
	f.Fuzz(func(t *testing.T, data []byte) {
		redis.FlushAll()
		in := input{data}
		model := storetest.NewModel(func() time.Time { return time.UnixMicro(now) })
		now = 0
		for len(in.data) > 0 {
			now = in.time(now)
			decideBatch(t, s, in.requests(), model)
		}
	})
}

// FuzzGiveBack compares the script with Limit.GiveBack on releases of charges, with arbitrary
// limits, times and charges in between.
func FuzzGiveBack(f *testing.F) {
	var now int64
	redis, s := startFuzzing(f, &now)
	// run returns the script's state of the first counter of a batch.
	run := func(t *testing.T, c *queue.Call) limiter.State {
		t.Helper()
		if call(s, c); c.Err != nil {
			t.Fatal(c.Err)
		}
		return testenv.Must(queue.Ticket{Call: c}.Outcomes(make([]limiter.Decision, 1), nil))(t)[0]
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		redis.FlushAll()
		in := input{data}
		now = in.time(0)
		hit := in.hit()
		for hit.HasUses() { // a state does not contain uses; see TestCrossSlotIsDecidedAsByTheModel
			hit = in.hit()
		}
		charge := func(h limiter.Hit) limiter.State {
			h.Always = !h.Refund
			h.Cost = max(h.Cost, 1)
			c := queue.NewCall(0, 0)
			c.Batch.Add([]limiter.Hit{h}, false)
			return run(t, c)
		}
		if in.byte()%2 == 0 { // an earlier charge
			now = in.time(now)
			charge(hit)
		}
		hit.Refund, hit.Cost = false, in.number()
		state := charge(hit)
		r := wire.Release{Hit: limiter.Hit{Key: hit.Key, Limit: hit.Limit, Cost: max(hit.Cost, 1)}, Charged: state}
		if in.byte()%2 == 0 { // a charge or refund in between
			now = in.time(now)
			hit.Refund, hit.Cost = in.byte()%4 == 0, in.number()
			state = charge(hit)
		}
		now = in.time(now)
		c := queue.NewCall(0, 0)
		c.Batch.AddRelease(r)
		// An expired state equals an unused state, whatever its numbers. Without use, only the
		// ban matters.
		plain := func(s limiter.State) limiter.State {
			if hit.Limit.Expiry(s) <= now {
				return limiter.State{}
			}
			if s.Used == 0 && s.Prev == 0 {
				s.At = 0
			}
			return s
		}
		if got, want := plain(run(t, c)), plain(hit.Limit.GiveBack(state, r.Charged, r.Hit.CountedCost(), now)); got != want {
			t.Errorf("at %d, %+v of limit %+v on %+v:\n got %+v\nwant %+v", now, r, hit.Limit.Spec, state, got, want)
		}
	})
}

// startFuzzing adds seeds to f, and starts a Redis and a store whose clock returns *now.
func startFuzzing(f *testing.F, now *int64) (*miniredis.Miniredis, *Store) {
	f.Helper()
	f.Add([]byte(nil))
	for n := range 8 {
		seed := make([]byte, 200)
		for i := range seed {
			seed[i] = byte(i*i*31 + n*17)
		}
		f.Add(seed)
	}
	redis := miniredis.RunT(f)
	return redis, open(f, Options{Main: at(redis.Addr()), Now: func() time.Time { return time.UnixMicro(*now) }})
}

// decideBatch decides the requests of one batch with a store and with a model, and compares the
// decisions.
func decideBatch(t *testing.T, s *Store, requests [][]limiter.Hit, model *storetest.Model) *queue.Call {
	t.Helper()
	c := queue.NewCall(0, 0)
	for _, hits := range requests {
		c.Batch.Add(hits, false)
	}
	if call(s, c); c.Err != nil {
		t.Fatalf("deciding %v: %v", requests, c.Err)
	}
	for place, hits := range requests {
		got, want := make([]limiter.Decision, len(hits)), make([]limiter.Decision, len(hits))
		denied, err := s.main.result(queue.Ticket{Call: c, Request: place}, hits, got)
		if wantDenied, _ := model.Decide(t.Context(), hits, want); denied != wantDenied || err != nil {
			t.Errorf("at %d: denied is %v, want %v (error: %v)", c.Reply.Now, denied, wantDenied, err)
		}
		for i, h := range hits {
			testenv.Equal(t, got[i], want[i], "at %d: hit %d %+v of limit %+v", c.Reply.Now, i, h, h.Limit)
		}
	}
	return c
}

// input turns bytes into requests. After the last byte, it reads zeros.
type input struct{ data []byte }

func (in *input) byte() byte {
	if len(in.data) == 0 {
		return 0
	}
	b := in.data[0]
	in.data = in.data[1:]
	return b
}

// number returns a number of any size, mostly small.
func (in *input) number() uint64 {
	var bytes [8]byte
	for i := range in.byte() % 9 {
		bytes[i] = in.byte()
	}
	return binary.LittleEndian.Uint64(bytes[:])
}

// time returns a time of the years 1970 to 2150, in microseconds since the epoch: any time, or a
// time somewhat before or after now.
func (in *input) time(now int64) int64 {
	const hour = uint64(time.Hour / time.Microsecond)
	const end = 180 * 365 * 24 * hour
	switch in.byte() % 4 {
	case 0:
		return int64(in.number() % end)
	case 1:
		now -= int64(in.number() % hour)
	case 2:
		now += int64(in.number() % hour)
	case 3:
		now += int64(in.number() % (60 * 24 * hour))
	}
	return min(max(now, 0), int64(end))
}

func (in *input) requests() [][]limiter.Hit {
	requests := make([][]limiter.Hit, 1+in.byte()%4)
	for r := range requests {
		settles := in.byte()%2 == 0 // whether the request settles reservations; otherwise it reserves
		for range 1 + in.byte()%6 {
			hit := in.hit()
			if hit.Limit.Settle != "" && in.byte()%2 == 0 {
				name := bytes.Repeat([]byte{in.byte() % 2}, limiter.HoldSize)
				hit.Reservation, hit.Refund, hit.Always = limiter.AppendReservation(bytes.Clone(hit.Key), name), settles, false
			}
			requests[r] = append(requests[r], hit)
		}
	}
	return requests
}

func (in *input) hit() limiter.Hit {
	how := in.byte()
	spec := limiter.Spec{
		RequestsPerUnit: min(in.number(), limiter.MaxAmount),
		Unit:            limiter.Month, // one unit, so that hits of different amounts share few counters
		Mode:            limiter.Mode(how % 3),
		Algorithm:       limiter.Algorithm(int(how) / 3 % len(limiter.AlgorithmNames())),
	}
	if how&128 != 0 {
		spec.Unit = limiter.Second + limiter.Unit(in.byte())%limiter.Year
		longest := uint64(limiter.MaxPeriod / spec.Unit.Duration())
		spec.UnitMultiplier = uint32(in.number() % (longest + 1))
	}
	if spec.Algorithm == limiter.ByCalendar {
		spec.UnitMultiplier = 1
		spec.TimeZone = []string{"", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"}[in.byte()%4]
	}
	if spec.Algorithm.Takes(limiter.BurstOption) {
		spec.Burst = min(in.number(), limiter.MaxAmount)
	}
	if spec.Algorithm.Takes(limiter.DenyForOption) {
		spec.DenyFor = []time.Duration{0, limiter.MinBan, time.Hour, limiter.MaxPeriod}[in.byte()%4]
	}
	if spec.Algorithm.Takes(limiter.SettleOption) {
		spec.Settle = "reservation"
	}
	limit, err := limiter.NewLimit(spec)
	for err != nil { // because its numbers are too large
		spec.RequestsPerUnit, spec.Burst = spec.RequestsPerUnit/1000, spec.Burst/1_000_000
		limit, err = limiter.NewLimit(spec)
	}
	key := limit.AppendKind(limiter.Keys{}.Append(nil, "fuzz", []limiter.Entry{{Key: "k", Value: string('a' + rune(in.byte()%2))}}, nil))
	hit := limiter.Hit{Limit: limit, Key: key, Cost: in.number(), Refund: how&32 != 0, Always: how&64 != 0}
	if limit.HoldKey() != "" {
		hit.Hold = bytes.Repeat([]byte{in.byte() % 8}, limiter.HoldSize)
	}
	return hit
}
