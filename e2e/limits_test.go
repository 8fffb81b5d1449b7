package e2e

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/testenv"
)

const limitRules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {unit: day, requests_per_unit: 1000}
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: user
    value: root
    rate_limit: {unlimited: true}
  - key: user
    value: carol
    rate_limit: {unit: day, requests_per_unit: 5}
    descriptors:
      - key: path
        value: /login
        rate_limit: {unit: day, requests_per_unit: 2}
  - key: user
    value: tokyo
    rate_limit: {unit: month, requests_per_unit: 2, algorithm: calendar, time_zone: Asia/Tokyo}
  - key: term
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: path
    value: /reports
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 2}
`

// until is how many seconds there are until a time that may be near.
func until(end func() time.Time) float64 { return time.Until(end()).Seconds() }

func nextDay() time.Time { return time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour) }

func nextMonthInTokyo() time.Time {
	tokyo := time.FixedZone("Asia/Tokyo", 9*60*60)
	year, month, _ := time.Now().In(tokyo).Date()
	return time.Date(year, month+1, 1, 0, 0, 0, 0, tokyo)
}

func TestLimits(t *testing.T) {
	inEachStore(t, limitRules, func(t *testing.T, s *stack) {
		t.Run("a limit admits its amount and shows it", func(t *testing.T) {
			for i, remaining := range []string{"1", "0", "0", "0"} {
				most := until(nextDay)
				a := s.ask("/", by("alice")...)
				least := until(nextDay)
				if want := times(2, 200, 429, 429)[i]; a.status != want || a.header.Get("x-ratelimit-remaining") != remaining || a.header.Get("x-ratelimit-limit") != "2, 1000;w=86400, 2;w=86400" {
					t.Errorf("request %d: status %d, want %d with %s remaining; headers %v", i+1, a.status, want, remaining, a.header)
				}
				reset, retry := a.header.Get("x-ratelimit-reset"), a.header.Get("retry-after")
				if seconds, err := strconv.ParseFloat(reset, 64); err != nil || seconds < least-1 || seconds > most+1 {
					t.Errorf("request %d: x-ratelimit-reset is %q, want %.f to %.f", i+1, reset, least, most)
				}
				if a.status == 200 && retry != "" || a.status == 429 && retry != reset {
					t.Errorf("request %d: retry-after is %q, x-ratelimit-reset %q", i+1, retry, reset)
				}
			}
		})
		t.Run("a denied request consumes nothing", func(t *testing.T) {
			before := s.weir.remaining("remote_address", "127.0.0.1")
			s.want("/login", "x-user: carol", 200, 200, 429, 429) // three descriptors
			s.want("/", "x-user: carol", 200, 200, 200, 429)
			if got := s.weir.remaining("remote_address", "127.0.0.1"); got != before-5 {
				t.Errorf("the address has %d requests left, want %d less 5", got, before)
			}
		})
		t.Run("users have limits of their own", func(*testing.T) {
			s.want("/", "x-user: bob", 200, 200, 429)
			s.want("/", "x-user: root", 200, 200, 200)
			s.want("/", "x-nobody: ", 200, 200, 200)
		})
		// Envoy passes the bytes of a header or a query parameter on as they came, and what
		// is not UTF-8 is no valid string of protobuf. That must not be a way around a limit.
		t.Run("values that are no text", func(*testing.T) {
			for _, user := range []string{"dave\xff", "dave\xfe", "dave\xc3", "dave"} {
				s.want("/", "x-user: "+user, 200, 200, 429, 429)
			}
			for _, term := range []string{"%ff", "%fe"} {
				s.want("/search?q="+term, "x-user: ", 200, 200, 429, 429)
			}
		})
		t.Run("a month ends with the calendar's, in the time zone of the limit", func(t *testing.T) {
			s.want("/", "x-user: tokyo", 200, 200)
			most := until(nextMonthInTokyo)
			a := s.ask("/", by("tokyo")...)
			least := until(nextMonthInTokyo)
			seconds, err := strconv.ParseFloat(a.header.Get("retry-after"), 64)
			if a.status != 429 || err != nil || seconds < least-1 || seconds > most+1 {
				t.Errorf("status %d, retry-after %q; want 429, %.f to %.f", a.status, a.header.Get("retry-after"), least, most)
			}
		})
		t.Run("a shadow limit never denies", func(*testing.T) {
			s.want("/reports", "x-user: alice", times(5, 200)...)
			s.weir.waitForMetric(`ratelimit_service_rate_limit_shadow_mode{domain="api",key1="path_/reports",key2=""} 3`)
		})
	})
}

func TestReloadedRulesServeWithoutRestart(t *testing.T) {
	inEachStore(t, userRules(1), func(t *testing.T, s *stack) {
		s.want("/", "x-user: alice", 200, 429)
		replaceRules(t, s.rules, userRules(3))
		s.weir.waitForRemaining(3, "api", "user", "new")
		s.want("/", "x-user: alice", 200, 200, 429) // a changed amount keeps the count
		replaceRules(t, s.rules, userRules(-1))
		s.weir.waitForMetric("ratelimit_service_config_load_error 1")
		s.want("/", "x-user: bob", 200, 200, 200, 429)
	})
}

func TestConcurrentRequestsAdmitExactlyTheLimit(t *testing.T) {
	t.Parallel()
	for name, processes := range map[string]int{"memory": 1, "one process on Redis": 1, "two processes on one Redis": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var env []string
			if name != "memory" {
				env = onRedis(testenv.RedisServer(t))
			}
			awayFromMidnight(t)
			dir := writeRules(t, userRules(100))
			var clients []service.RateLimitServiceClient
			for range processes {
				w := startWeir(t, dir, env...)
				for range 8 / processes {
					clients = append(clients, dial(t, w.grpc))
				}
			}
			var admitted, denied atomic.Int64
			var asking sync.WaitGroup
			start := make(chan struct{})
			for i := range 1000 {
				asking.Go(func() {
					<-start
					answer, err := decide(clients[i%len(clients)], request(descriptor("user", "alice")))
					switch {
					case err != nil:
						t.Errorf("request %d: %v", i, err)
					case answer.OverallCode == service.RateLimitResponse_OK:
						admitted.Add(1)
					default:
						denied.Add(1)
					}
				})
			}
			close(start)
			asking.Wait()
			if admitted.Load() != 100 || denied.Load() != 900 {
				t.Errorf("%d admitted and %d denied, want 100 and 900", admitted.Load(), denied.Load())
			}
		})
	}
}

// A client that waits as long as Retry-After says is admitted, whatever the
// algorithm.
func TestRetryAfterIsHonest(t *testing.T) {
	t.Parallel()
	s := gateway{}.start(t, `
domain: api
descriptors:
  - key: user
    value: window
    rate_limit: {unit: second, unit_multiplier: 2, requests_per_unit: 2}
  - key: user
    value: window of the first hit
    rate_limit: {unit: second, unit_multiplier: 2, requests_per_unit: 2, algorithm: first_hit}
  - key: user
    value: sliding window
    rate_limit: {unit: second, requests_per_unit: 2, algorithm: sliding_window}
  - key: user
    value: bucket
    rate_limit: {unit: second, unit_multiplier: 3, requests_per_unit: 2, algorithm: token_bucket}
  - key: user
    value: window and bucket
    rate_limit:
      - {name: window, unit: second, requests_per_unit: 2}
      - {name: bucket, unit: second, unit_multiplier: 2, requests_per_unit: 1, algorithm: token_bucket}
`)
	type denial struct {
		user    string
		seconds int       // of Retry-After
		until   time.Time // when they have passed
	}
	for range 2 { // the second time the sliding window has a past
		var due []denial
		for _, user := range []string{"window", "window of the first hit", "sliding window", "bucket", "window and bucket"} {
			a := s.ask("/", by(user)...)
			for a.status != 429 {
				a = s.ask("/", by(user)...)
			}
			seconds := testenv.Must(strconv.Atoi(a.header.Get("retry-after")))(t)
			if seconds < 1 || seconds > 2 {
				t.Errorf("%s: retry-after is %d seconds, want 1 or 2", user, seconds)
			}
			due = append(due, denial{user, seconds, time.Now().Add(time.Duration(seconds) * time.Second)})
		}
		slices.SortFunc(due, func(a, b denial) int { return a.until.Compare(b.until) })
		for _, d := range due {
			testenv.Pass(time.Until(d.until))
			if got := s.ask("/", by(d.user)...).status; got != 200 {
				t.Errorf("%s: status %d after %d seconds, as retry-after said; want 200", d.user, got, d.seconds)
			}
		}
	}
}
