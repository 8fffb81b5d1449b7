package rls

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"

	"weir/internal/limiter/redis"
	"weir/internal/testenv"
)

// hostileRules limit each value of a key to two requests, with many kinds of rules. They limit a
// guard, whose value clients cannot choose, to three requests.
const hostileRules = `
domain: api
descriptors:
  - {key: guard, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: any, value_to_metric: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: value, value: [a, b], rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: value, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: wildcard, value: a*, rate_limit: {unit: year, requests_per_unit: 2, algorithm: sliding_window}}
  - {key: wildcard, value: "*b", rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: wildcard, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: regex, regex: "(a|b)+", share_threshold: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: regex, rate_limit: {unit: year, requests_per_unit: 2, algorithm: token_bucket}}
  - {key: networks, networks: [10.0.0.0/8, "::/0"], rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: networks, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: below, below: true, rate_limit: {unit: year, requests_per_unit: 2}, descriptors: [{key: a, value: b}]}
  - {key: banned, rate_limit: {unit: year, requests_per_unit: 2, deny_for: 1h}}
  - {key: flight, rate_limit: {unit: year, requests_per_unit: 2, algorithm: concurrency}}
  - {key: sent, override: {}, rate_limit: {unit: minute, requests_per_unit: 1000000, algorithm: sliding_window}}
  - {key: judged, override: {max_requests_per_unit: 9}, rate_limit: {unit: minute, requests_per_unit: 9, algorithm: token_bucket}}
  - {rate_limit: {unit: year, requests_per_unit: 2}}
`

// Texts and numbers that Envoy can take from a request.
var (
	hostileTexts = []string{
		"", " ", "\x00", "a\x00", "\xff", "a\xffb", "\xed\xa0\x80", "-1", "*", "a*", "|", "{x}", "a=b|1y", "%00", "\r\nx: y",
		"10.0.0.1", "10.0.0.1%x", "::ffff:10.0.0.1", "010.0.0.1", "18446744073709551616",
		strings.Repeat("a", 60<<10), strings.Repeat("\xff", 60<<10), strings.Repeat("10.", 1<<10), strings.Repeat("a", 1<<20),
	}
	hostileNumbers = []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 99, 101, 1 << 31, 1<<31 - 1, 1 << 32, 1 << 50, 1<<53 + 1, 1 << 63, math.MaxUint64}
)

// client sends requests as Envoy does with default settings: after an error, a request passes.
type client struct {
	*testing.T
	conn *grpc.ClientConn
}

// entries returns a descriptor with these keys and values.
func entries(texts ...string) (d message) {
	for i := 0; i < len(texts); i += 2 {
		d = d.bytes(1, message{}.string(1, texts[i]).string(2, texts[i+1]))
	}
	return d
}

// passes reports whether a request with the descriptors, a guard and additional fields passes.
func (c client) passes(guard string, more message, descriptors ...message) bool {
	m := message{}.string(1, "api").bytes(2, entries("guard", guard))
	for _, d := range descriptors {
		m = m.bytes(2, d)
	}
	answer, err := askRaw(c, c.conn, append(m, more...))
	return err != nil || answer.GetOverallCode() == ratelimitv3.RateLimitResponse_OK
}

// wantAtMost sends six requests and returns the number that pass. The test fails if more pass
// than for a polite client.
func (c client) wantAtMost(polite int, name string, more message, descriptors ...message) (passed int) {
	c.Helper()
	for range 6 {
		if c.passes(name, more, descriptors...) {
			passed++
		}
	}
	if passed > polite {
		c.Errorf("%.60q: %d requests passed, a polite client gets %d through", name, passed, polite)
	}
	return passed
}

// A hostile client never gets more requests through than a polite client.
func TestHostileClient(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testHostileClient(t, options(t, hostileRules)) })
	t.Run("redis", func(t *testing.T) {
		o, server := options(t, hostileRules), redis.Server{Addr: testenv.RedisServer(t).Addr(), Timeout: 20 * time.Second}
		s := redis.New(redis.Options{Main: server, Wait: server.Timeout, DenyMemory: 1 << 20})
		t.Cleanup(func() { s.Close() })
		o.store = s
		testHostileClient(t, o)
	})
}

func testHostileClient(t *testing.T, o *setup) {
	c := client{t, serve(t, o.service())}

	// Texts: each text six times, and all texts in turn.
	for _, key := range []string{"any", "value", "wildcard", "regex", "networks", "below", "banned", "flight", "unknown"} {
		descriptor := func(v string) message {
			switch key {
			case "below":
				return entries(key, v, "a", "b")
			case "flight":
				return entries("request_id", v, key, "a")
			}
			return entries(key, v)
		}
		polite, passed := 2, 0
		if key == "flight" {
			polite = 3 // as many as the guard allows, because a hold may be taken again
		}
		testenv.Equal(t, c.wantAtMost(polite, key, nil, descriptor("b")), polite, "%s: requests of a polite client that passed", key)
		for i, v := range hostileTexts {
			c.wantAtMost(polite, fmt.Sprintf("%s %d %.20s", key, i, v), nil, descriptor(v))
			if c.passes(key+" in turn", nil, descriptor(v+"x")) {
				passed++
			}
		}
		if passed > 3 {
			t.Errorf("%s: %d requests passed with values of their own, want at most 3", key, passed)
		}
	}

	// Numbers. Some of them make limits so large that they admit all requests.
	for _, n := range hostileNumbers {
		number := message{}.varint(1, n)
		for name, d := range map[string]message{
			"amount":              message{}.varint(1, n).varint(2, 6),
			"unit":                message{}.varint(1, 9).varint(2, n),
			"multiplier":          message{}.varint(1, 9).varint(2, 6).bytes(3, number),
			"multiplier of month": message{}.varint(1, 1<<32-1).varint(2, 5).bytes(3, number),
		} {
			for _, key := range []string{"sent", "judged", "value", "flight", "unknown"} {
				c.wantAtMost(3, fmt.Sprint(name, n, key), nil, entries(key, "a").bytes(2, d))
			}
		}
		c.wantAtMost(3, fmt.Sprint("addend ", n), nil, entries("any", fmt.Sprint(n)).bytes(3, number))
		c.wantAtMost(3, fmt.Sprint("addend of all ", n), message{}.varint(3, n))
	}

	// Numbers and sizes of entries and descriptors.
	for _, n := range []int{2, 20, 100, 101, 1000} {
		var doubled message
		for range n {
			doubled = append(doubled, entries("any", "x")...)
		}
		c.wantAtMost(3, fmt.Sprint("entries ", n), nil, doubled)
		descriptors, large := make([]message, n), make([]message, min(n, 68))
		for i := range n {
			descriptors[i] = entries("any", fmt.Sprint(n, i))
		}
		for i := range large {
			large[i] = entries("any", strings.Repeat("x", 60<<10))
		}
		c.wantAtMost(2, fmt.Sprint("descriptors ", n), nil, descriptors...)
		c.wantAtMost(2, fmt.Sprint("60 KiB in ", n), nil, large...)
	}

	// Refunds release only the hold that they name.
	for _, id := range []string{"1", "2"} {
		c.passes("refunds"+id, nil, entries("flight", "b", "request_id", id))
	}
	for i, v := range hostileTexts {
		c.passes(fmt.Sprint("refund", i), nil, entries("request_id", v, "flight", "b").varint(4, 1))
		c.wantAtMost(0, fmt.Sprintf("refund of %.20q", v), nil, entries("flight", "b", "request_id", "3"))
	}
}

// A compressed message may expand to a large one, so it is refused without being expanded.
func TestCompressedMessages(t *testing.T) {
	conn := serve(t, options(t, hostileRules).service())
	_, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "api"}, grpc.UseCompressor(gzip.Name))
	if err == nil || !strings.Contains(err.Error(), "compressed messages are not accepted") {
		t.Errorf("got %v", err)
	}
}
