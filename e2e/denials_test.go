package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/testenv"
)

// TestDenialsHoldHashes finds a denied user by the hash of its name alone, in the page of
// denials, in the log of decisions and in Redis.
func TestDenialsHoldHashes(t *testing.T) {
	t.Parallel()
	const hashOfAlice = "#K9gGyX8OAK8aH8Myj6djqQ"
	redis := testenv.RedisServer(t)
	w := startWeir(t, writeRules(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]\n"),
		append(onRedis(redis), "CACHE_KEY_HASH_VALUES=true", "DECISION_LOG=denied")...)
	askFor(t, w, 3, "user", "alice")
	page := testenv.Must(fetch("http://" + w.debug + "/denials"))(t)
	var denials struct {
		Minute struct {
			Limits []struct {
				Rule   string
				Denied int
				Keys   []struct {
					Denied     int
					Descriptor struct{ Entries []struct{ Key, Value string } }
				}
			}
		}
	}
	testenv.OK(t, json.Unmarshal([]byte(page.body), &denials))
	l := denials.Minute.Limits
	if len(l) != 1 || l[0].Rule != "user" || l[0].Denied != 2 || l[0].Keys[0].Denied != 2 || l[0].Keys[0].Descriptor.Entries[0].Value != hashOfAlice {
		t.Errorf("got %s", page.body)
	}
	testenv.Becomes(t, "decisions", 2, func() int { return strings.Count(w.output.String(), `"value":"`+hashOfAlice+`","hashed":true`) })
	for what, text := range map[string]string{"page": page.body, "output": w.output.String()} {
		if strings.Contains(text, "alice") {
			t.Errorf("the %s holds the value: %s", what, text)
		}
	}
	if key := redis.Command(`EVAL "return redis.call('KEYS', '*user*')[1]" 0`); !strings.Contains(key, hashOfAlice) {
		t.Errorf("got key %s, want %s in it", key, hashOfAlice)
	}
}

// The log of decisions has lines as docs/operations.md shows one, which has a trace, too.
func TestDocumentedDecision(t *testing.T) {
	t.Parallel()
	const limit = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 5}\n"
	w := startWeir(t, writeRules(t, limit), "DECISION_LOG=denied")
	r := &service.RateLimitRequest{Domain: "shop", Descriptors: request(descriptor("user", "alice")).Descriptors}
	client := dial(t, w.grpc)
	for range 11 { // in two minutes at most
		testenv.Must(decide(client, r))(t)
	}
	want := decision(t, documentedBlock(t, "docs/operations.md", `{"time"`))
	delete(want, "trace_id")
	testenv.Eventually(t, func() error {
		_, rest, _ := strings.Cut(w.output.String(), `{"time"`)
		line, _, found := strings.Cut(rest, "\n")
		if !found {
			return fmt.Errorf("no decision in %s", w.output.String())
		}
		if got := decision(t, `{"time"`+line); !maps.Equal(got, want) {
			return fmt.Errorf("got %v, documented is %v", got, want)
		}
		return nil
	})
}

// decision returns a line of the log, without times and the path of its rules.
func decision(t *testing.T, line string) map[string]string {
	t.Helper()
	var decoded map[string]any
	testenv.OK(t, json.Unmarshal([]byte(line), &decoded))
	fields := map[string]string{}
	for name, value := range decoded {
		fields[name] = fmt.Sprint(value)
	}
	for _, name := range []string{"time", "retry_after"} {
		if fields[name] == "" {
			t.Errorf("no %s in %s", name, line)
		}
		delete(fields, name)
	}
	_, fields["place"], _ = strings.Cut(fields["place"], ".yaml:")
	return fields
}
