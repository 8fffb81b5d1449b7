package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/testenv"
)

const (
	inFlightRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {algorithm: concurrency, requests_per_unit: 50, unit: second, unit_multiplier: 5}
`
	longestHold = 5 * time.Second
	// inFlightKey is where Redis keeps who is in flight.
	inFlightKey = "w1|api|user=alice|c5s"
)

// TestNeverMoreInFlightThanTheLimit has 1,000 callers of two processes on one Redis, of
// which one is killed while its callers hold something, and they with it.
func TestNeverMoreInFlightThanTheLimit(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisServer(t)
	dir := writeRules(t, inFlightRules)
	f := &flights{T: t}
	killed, survivor := startWeir(t, dir, onRedis(redis)...), startWeir(t, dir, onRedis(redis)...)

	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	mortal, die := context.WithCancel(ctx)
	defer die()
	var callers sync.WaitGroup
	var ofSurvivor, ofKilled []service.RateLimitServiceClient
	for range 8 {
		ofSurvivor, ofKilled = append(ofSurvivor, dial(t, survivor.grpc)), append(ofKilled, dial(t, killed.grpc))
	}
	for i := range 1000 {
		callers.Go(func() {
			if i%2 == 0 {
				f.fly(ctx, ofSurvivor[i/2%8], fmt.Sprint("survivor ", i), 2)
			} else {
				f.fly(mortal, ofKilled[i/2%8], fmt.Sprint("killed ", i), 1000)
			}
		})
	}
	testenv.Eventually(t, func() error {
		if n := f.landed.Load(); n < 300 {
			return fmt.Errorf("%d have ended", n)
		}
		return nil
	})
	die()
	killed.signal(syscall.SIGKILL)
	killed.exitCode()
	callers.Wait()
	ended := time.Now()
	t.Logf("after %v: %d ended, %d at once at most, %d left behind by callers that died; %d calls were denied",
		time.Since(began).Round(time.Millisecond), f.landed.Load(), f.most.Load(), f.lost.Load(), f.denied.Load())

	if most := f.most.Load(); most > 50 || most < 25 {
		t.Errorf("%d in flight at once, want at most 50, and more than half of that", most)
	}
	if got, most := zcard(t, redis), f.lost.Load(); most == 0 || got > most {
		t.Errorf("%d are held at the end, want at most the %d that callers left behind", got, most)
	}
	testenv.Eventually(t, func() error {
		if n := zcard(t, redis); n > 0 {
			return fmt.Errorf("%d are held", n)
		}
		return nil
	})
	if took := time.Since(ended); took > 2*longestHold {
		t.Errorf("what died was held for %v, want %v", took, longestHold)
	}
	client := dial(t, survivor.grpc)
	for i := range 51 {
		if code := f.ask(ctx, client, fmt.Sprint("last ", i), false); (code == service.RateLimitResponse_OK) != (i < 50) {
			t.Errorf("call %d after all: %v", i+1, code)
		}
	}
}

// flights is what is in flight, counted where it is.
type flights struct {
	*testing.T
	now, most, landed, lost, denied atomic.Int64
}

// fly holds something as often as times, or until its caller dies.
func (f *flights) fly(ctx context.Context, client service.RateLimitServiceClient, caller string, times int) {
	for n := 0; n < times && ctx.Err() == nil; n++ {
		id := fmt.Sprint(caller, " ", n)
		f.lost.Add(1) // until it is given back, or surely not taken
		asked := time.Now()
		for {
			code := f.ask(ctx, client, id, false)
			if code == service.RateLimitResponse_UNKNOWN {
				return // it may be held
			} else if code == service.RateLimitResponse_OK {
				break
			}
			f.denied.Add(1)
			time.Sleep(100*time.Millisecond + rand.N(400*time.Millisecond))
			if asked = time.Now(); ctx.Err() != nil {
				f.lost.Add(-1)
				return
			}
		}
		if time.Since(asked) < longestHold/2 { // on a machine that is very busy it may have ended already
			now := f.now.Add(1)
			for most := f.most.Load(); now > most && !f.most.CompareAndSwap(most, now); {
				most = f.most.Load()
			}
			time.Sleep(20*time.Millisecond + rand.N(20*time.Millisecond))
			f.now.Add(-1)
		}
		if ctx.Err() != nil || f.ask(ctx, client, id, true) == service.RateLimitResponse_UNKNOWN {
			return
		}
		if rand.IntN(4) == 0 {
			f.ask(ctx, client, id, true) // twice
		}
		f.lost.Add(-1)
		f.landed.Add(1)
	}
}

// ask takes the hold of a name, or gives it back. The code is UNKNOWN if the caller
// died meanwhile.
func (f *flights) ask(ctx context.Context, client service.RateLimitServiceClient, id string, refund bool) service.RateLimitResponse_Code {
	d := descriptor("user", "alice")
	d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: "request_id", Value: id})
	if refund {
		d.IsNegativeHits, d.HitsAddend = true, wrapperspb.UInt64(1)
	}
	resp, err := client.ShouldRateLimit(ctx, &service.RateLimitRequest{Domain: "api", Descriptors: []*ratelimit.RateLimitDescriptor{d}})
	if err != nil {
		if ctx.Err() == nil {
			f.Errorf("%s: %v", id, err)
		}
		return service.RateLimitResponse_UNKNOWN
	}
	return resp.OverallCode
}

// zcard returns how many holds Redis has.
func zcard(t *testing.T, redis *testenv.Redis) int64 {
	t.Helper()
	conn := testenv.Must(net.Dial("tcp", redis.Addr()))(t)
	defer conn.Close()
	testenv.Must(fmt.Fprintf(conn, "ZCARD %s\r\n", inFlightKey))(t)
	line := testenv.Must(bufio.NewReader(conn).ReadString('\n'))(t)
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(line, ":")), 10, 64)
	if err != nil {
		t.Fatalf("ZCARD: %q", line)
	}
	return n
}
