package redis

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/queue"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// BenchmarkPrice alternates between calls with requests of several callers on existing counters,
// and calls of a minimal script with as many keys. It reports Redis' total CPU time for a
// decision, also as a multiple of the time of the minimal script.
func BenchmarkPrice(b *testing.B) {
	text := testenv.Must(os.ReadFile(filepath.Join(testenv.Repository(b), "bench", "least.lua")))(b)
	leastScript := redis.NewScript(string(text))
	type limits = []limiter.Spec
	fixed, sliding, bucket := limiter.Spec{}, limiter.Spec{Algorithm: limiter.SlidingWindow}, limiter.Spec{Algorithm: limiter.TokenBucket}
	for _, c := range []struct {
		name    string
		callers int
		specs   limits
		users   int // number of users, who take turns
		rules   int // number of rules, each with its own amount, assigned to the users in turn
		over    int // every n-th user is over a limit; 0 means none
	}{
		{"limits=1", 22, limits{fixed}, 1000, 1, 0},
		{"limits=3", 22, limits{fixed, fixed, fixed}, 1000, 1, 0},
		{"limits=10", 22, limits{fixed, fixed, fixed, fixed, fixed, fixed, fixed, fixed, fixed, fixed}, 1000, 1, 0},
		{"limits=1/callers=1", 1, limits{fixed}, 1000, 1, 0},
		{"limits=3/callers=1", 1, limits{fixed, fixed, fixed}, 1000, 1, 0},
		{"sliding=1", 22, limits{sliding}, 1000, 1, 0},
		{"sliding=3", 22, limits{sliding, sliding, sliding}, 1000, 1, 0},
		{"buckets=1", 22, limits{bucket}, 1000, 1, 0},
		{"buckets=3", 22, limits{bucket, bucket, bucket}, 1000, 1, 0},
		{"hot", 22, limits{fixed}, 1, 1, 0},
		{"rules", 22, limits{fixed}, 1000, 1000, 0},
		{"limits=1/one over", 22, limits{fixed}, 22 * 40, 1, 22},
		{"limits=3/one over", 22, limits{fixed, fixed, fixed}, 22 * 40, 1, 22},
		{"limits=1/all over", 22, limits{fixed}, 1000, 1, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := testenv.RedisServer(b)
			admin := connect(b, r)
			s := open(b, Options{Main: at(r.Addr())})
			testenv.OK(b, admin.ScriptLoad(b.Context(), string(text)).Err())
			of := make([][]*limiter.Limit, c.rules)
			for rule := range of {
				for i, spec := range c.specs {
					spec.RequestsPerUnit, spec.Unit, spec.UnitMultiplier = 1<<30+uint64(rule), limiter.Hour, uint32(i+1)
					of[rule] = append(of[rule], storetest.Must(spec))
				}
			}
			user, none := 0, storetest.Must(limiter.Spec{Unit: limiter.Hour})
			// keys returns the keys of the next requests of all callers.
			keys := func() (keys [][]byte) {
				for range c.callers {
					user = (user + 1) % c.users
					for i := range c.specs {
						keys = append(keys, fmt.Appendf(nil, "w1|api|user=user-%d|path=/login/%d|1h", user, i))
					}
				}
				return keys
			}
			decide := func() {
				call, keys := queue.NewCall(0, 0), keys()
				for n := range c.callers {
					of := of[(user+n)%c.rules]
					request := make([]limiter.Hit, len(of))
					for i := range request {
						request[i] = limiter.Hit{Limit: of[i], Cost: 1, Key: keys[n*len(of)+i]}
					}
					if c.over > 0 && n%c.over == 0 {
						request[0].Limit = none
					}
					call.Batch.Add(request, false)
				}
				if s.main.queues.Run(b.Context(), nil, []*queue.Call{call}, false); call.Err != nil {
					b.Fatal(call.Err)
				}
			}
			least := func() {
				keys := keys()
				args := []any{"evalsha", leastScript.Hash(), len(keys)}
				for _, key := range keys {
					args = append(args, "least "+string(key))
				}
				do(b, admin, args...)
			}
			const calls = 100
			var cost, leastCost float64
			measure := func(call func(), sum *float64) {
				before := redisCPU(b, admin)
				for range calls {
					call()
				}
				*sum += redisCPU(b, admin) - before
			}
			for range c.users/c.callers + 1 {
				decide()
				least()
			}
			rounds := 0
			for ; b.Loop(); rounds++ {
				measure(decide, &cost)
				measure(least, &leastCost)
			}
			decisions := float64(rounds * calls * c.callers)
			b.ReportMetric(cost*1e6/decisions, "redis-µs/decision")
			b.ReportMetric(leastCost*1e6/decisions, "least-µs/decision")
			b.ReportMetric(cost/leastCost, "ratio")
		})
	}
}

// BenchmarkLog reports what a decision on a full counter costs Redis, and the counter's memory. A
// request is denied, or refunds a unit and charges one.
func BenchmarkLog(b *testing.B) {
	window, log := limiter.Spec{RequestsPerUnit: 100}, limiter.Spec{RequestsPerUnit: 100, Algorithm: limiter.SlidingLog}
	large := log
	large.RequestsPerUnit = limiter.MaxLogged
	for _, spec := range []limiter.Spec{window, log, large} {
		for _, denied := range []bool{false, true} {
			b.Run(fmt.Sprintf("%v/%d/denied=%t", spec.Algorithm, spec.RequestsPerUnit, denied), func(b *testing.B) {
				r := testenv.RedisServer(b)
				admin, s := connect(b, r), open(b, Options{Main: at(r.Addr())})
				spec.Unit = limiter.Day
				const key = "w1|api|user=alice|1d"
				charge := hit(key, storetest.Must(spec), 1)
				for range spec.RequestsPerUnit {
					mustDecide(b, s, charge)
				}
				hits := []limiter.Hit{charge}
				if !denied {
					hits = []limiter.Hit{refund(key, charge.Limit, 1), charge}
				}
				before := redisCPU(b, admin)
				for b.Loop() {
					mustDecide(b, s, hits...)
				}
				b.ReportMetric((redisCPU(b, admin)-before)*1e6/float64(b.N), "redis-µs/decision")
				b.ReportMetric(float64(do(b, admin, "memory", "usage", key, "samples", 0).(int64)), "bytes")
			})
		}
	}
}

// redisCPU returns the CPU time that Redis has used, in seconds.
func redisCPU(b *testing.B, client *redis.Client) (sum float64) {
	b.Helper()
	info := testenv.Must(client.Info(b.Context(), "cpu").Result())(b)
	for _, name := range []string{"used_cpu_user:", "used_cpu_sys:"} {
		_, rest, _ := strings.Cut(info, name)
		seconds, _, _ := strings.Cut(rest, "\r")
		sum += testenv.Must(strconv.ParseFloat(seconds, 64))(b)
	}
	return sum
}
