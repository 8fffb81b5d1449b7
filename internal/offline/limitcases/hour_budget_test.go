package limitcases

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/storetest"
)

// "240 requests an hour per identifier, by a counter in hour buckets."
func Test240PerHour(t *testing.T) {
	t.Parallel()
	perHour := storetest.Must(limiter.Spec{RequestsPerUnit: 240, Unit: limiter.Hour})
	ten := time.Date(2026, time.January, 2, 10, 0, 0, 0, time.UTC)
	onEachStore(t, func(r replica, c *clock) {
		alice, bob := hit(perHour, "user", "alice"), hit(perHour, "user", "bob")

		c.set(ten.Add(15 * time.Minute))
		r.expectAdmitted(240, alice)
		r.expectDenied(45*time.Minute, alice)
		r.expectAdmitted(1, bob) // an identifier's budget is its own

		c.set(ten.Add(time.Hour - time.Microsecond))
		r.expectDenied(time.Microsecond, alice)
		r.expectUsed(240, alice)

		c.set(ten.Add(time.Hour))
		r.expectAdmitted(240, alice)
		r.expectDenied(time.Hour, alice)
	})
}

// "10 per second, 125 per minute and 250 per hour together, for two identifiers
// in one request."
var threeLimits = []*limiter.Limit{
	storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Second}),
	storetest.Must(limiter.Spec{RequestsPerUnit: 125, Unit: limiter.Minute}),
	storetest.Must(limiter.Spec{RequestsPerUnit: 250, Unit: limiter.Hour}),
}

// from is a request of a user from an address: every limit for both.
func from(ip, user string) (hits []limiter.Hit) {
	for _, limit := range threeLimits {
		hits = append(hits, hit(limit, "ip", ip), hit(limit, "user", user))
	}
	return hits
}

// A client that sends 100 requests a second for an hour gets exactly what the
// hour's limit allows. A counter that denied requests use up as well gives it
// the requests of two seconds, and then nothing for the hour.
func TestDeniedRequestsDoNotEatTheHour(t *testing.T) {
	t.Parallel()
	const requests, every = 360_000, 10 * time.Millisecond
	c := new(clock)
	r := replica{t, memory.New(memory.Options{Now: c.now})}
	hits, out := from("192.0.2.1", "alice"), make([]limiter.Decision, 6)
	naive := make(pipeline, len(hits))
	start := time.Date(2026, time.January, 2, 10, 0, 0, 0, time.UTC)

	admitted, admittedNaively := 0, 0
	inSecond, inMinute := map[int]int{}, map[int]int{}
	for i := range requests {
		now := start.Add(time.Duration(i) * every)
		c.set(now)
		denied, err := r.store.Decide(t.Context(), hits, out)
		if err != nil {
			t.Fatalf("Decide: %v", err)
		}
		if !denied {
			admitted++
			inSecond[i/100]++
			inMinute[i/6000]++
		}
		if naive.admits(hits, now) {
			admittedNaively++
		}
	}

	if admitted != 250 {
		t.Errorf("%d requests of an hour are admitted, want 250", admitted)
	}
	for second, n := range inSecond {
		if n > 10 {
			t.Errorf("second %d: %d requests are admitted, want at most 10", second, n)
		}
	}
	if inMinute[0] != 125 || inMinute[1] != 125 {
		t.Errorf("requests admitted per minute are %v, want 125 in each of the first two", inMinute)
	}
	if admittedNaively != 20 {
		t.Errorf("the pipeline admits %d requests of an hour, want 20", admittedNaively)
	}
	for _, h := range hits[4:] { // the last request was denied 59 minutes after the last that was not
		r.expectUsed(250, h)
	}

	c.set(start.Add(time.Hour))
	r.expectAdmitted(10, hits...)
	r.expectDenied(time.Second, hits...)
}

// pipeline is the counter that one writes first: it sends INCR and EXPIRE for
// each counter of a request, and then looks whether one is above its limit. It
// serves one client, with a counter for each of its hits.
type pipeline []struct {
	window int64
	count  uint64
}

func (p pipeline) admits(hits []limiter.Hit, now time.Time) bool {
	admitted := true
	for i, h := range hits {
		if window := now.UnixMicro() / h.Limit.Period().Microseconds(); p[i].window != window {
			p[i].window, p[i].count = window, 0
		}
		p[i].count++
		admitted = admitted && p[i].count <= h.Limit.RequestsPerUnit
	}
	return admitted
}

// What one limit denies costs the others nothing: neither the longer ones of the
// same identifier nor those of the other.
func TestADenialCostsTheOtherIdentifierNothing(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Date(2026, time.January, 2, 10, 15, 0, 0, time.UTC) }
	for name, r := range map[string]replica{
		"memory": {t, memory.New(memory.Options{Now: now})},
		// A real one drops the second's counter in real time.
		"redis": onRedis(t, miniredis.RunT(t), now),
	} {
		t.Run(name, func(t *testing.T) {
			r.TB = t
			r.expectAdmitted(10, from("192.0.2.1", "mallory")...)
			for range 20 {
				r.expectDenied(time.Second, from("192.0.2.1", "alice")...)
			}
			for _, limit := range threeLimits {
				r.expectUsed(0, hit(limit, "user", "alice"))
				r.expectUsed(10, hit(limit, "ip", "192.0.2.1"))
			}
			r.expectAdmitted(10, from("192.0.2.2", "alice")...)
		})
	}
}
