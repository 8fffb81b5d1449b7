package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/testenv"
)

// hook receives events. Each is answered by the function in answers, or accepted if there is none
// left.
type hook struct {
	mu      sync.Mutex
	all     []map[string]any
	answers []http.HandlerFunc
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	var event map[string]any
	_ = json.Unmarshal(text, &event)
	event["auth"], event["content"] = r.Header.Get("Authorization"), r.Header.Get("Content-Type")
	h.mu.Lock()
	h.all = append(h.all, event)
	answer := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	if len(h.answers) > 0 {
		answer, h.answers = h.answers[0], h.answers[1:]
	}
	h.mu.Unlock()
	answer(w, r)
}

// wants waits until the events are about these teams and thresholds, and returns the last one.
func (h *hook) wants(t *testing.T, want ...string) (last map[string]any) {
	t.Helper()
	testenv.Eventually(t, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		var got []string
		for _, event := range h.all {
			team := get(t, event, "data", "descriptor", "entries", 0)["value"]
			got = append(got, fmt.Sprint(team, " ", get(t, event, "data")["threshold"]))
			last = event
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("got events %q, want %q", got, want)
		}
		return nil
	})
	return last
}

// TestBudgetEvents uses the budgets of teams on two servers with one Redis. An event is sent once,
// looks as in docs/rules.md, and waits for an endpoint that fails. A server that is killed while the
// endpoint hangs leaves its event to the other one. All that takes no time from decisions.
func TestBudgetEvents(t *testing.T) {
	t.Parallel()
	h, redis := &hook{}, testenv.RedisServer(t)
	rules := writeRules(t, documentedBlock(t, "docs/rules.md", "domain: shop\ndescriptors:\n  - key: tokens_of_team\n    rate_limit: {unit: month, algorithm: calendar, requests_per_unit: 1_000_000, notify"))
	auth := testenv.File(t, "auth", "Bearer swordfish\n")
	env := append(onRedis(redis), "EVENTS_URL=http://"+serve(t, h)+"/", "EVENTS_AUTH_FILE="+auth)
	one, two := startWeir(t, rules, env...), startWeir(t, rules, env...)
	use := func(w *weir, team string, tokens uint64) {
		t.Helper()
		d := descriptor("tokens_of_team", team)
		d.HitsAddend = wrapperspb.UInt64(tokens)
		r := request(d)
		r.Domain = "shop"
		start := time.Now()
		if _, err := decide(dial(t, w.grpc), r); err != nil || time.Since(start) > 5*time.Second {
			t.Errorf("decided in %v, error %v", time.Since(start), err)
		}
	}
	use(one, "blue", 799_999)
	use(two, "blue", 1_201)
	got := h.wants(t, "blue 80")
	var want map[string]any
	testenv.OK(t, json.Unmarshal([]byte(documentedBlock(t, "docs/rules.md", `{"specversion"`)), &want))
	if got["auth"] != "Bearer swordfish" || got["content"] != "application/cloudevents+json; charset=UTF-8" || !strings.HasPrefix(got["id"].(string), strings.TrimSuffix(want["id"].(string), "1793491200")) {
		t.Errorf("got %v", got)
	}
	now := time.Now().UTC()
	for _, event := range []map[string]any{got, want} {
		for _, key := range []string{"auth", "content", "id", "time"} {
			delete(event, key)
		}
	}
	window := get(t, want, "data", "window")
	window["start"] = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	window["end"] = time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	testenv.EqualDeep(t, got, want, "the event")

	// Two attempts fail.
	h.answers = []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	use(two, "red", 900_000)
	h.wants(t, "blue 80", "red 80", "red 80", "red 80")
	two.waitForMetric(`weir_events_total{outcome="sent"} 2`)
	if log := two.output.String(); !strings.Contains(log, "it answers with status 500") || strings.Contains(log+one.output.String(), "swordfish") {
		t.Errorf("got the log\n%s", log)
	}

	// The first server dies while the endpoint hangs.
	hangs := make(chan struct{})
	h.answers = []http.HandlerFunc{func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); close(hangs) }}
	use(one, "green", 850_000)
	h.wants(t, "blue 80", "red 80", "red 80", "red 80", "green 80")
	use(one, "grey", 1)
	one.kill()
	<-hangs
	use(two, "green", 200_000)
	h.wants(t, "blue 80", "red 80", "red 80", "red 80", "green 80", "green 80", "green 100")
	two.waitForMetric(`weir_limit_reached_total{domain="shop",limit="month calendar",rule="tokens_of_team",threshold="100"} 1`)
	if left := redis.Command(`EVAL "return redis.call('PTTL', redis.call('KEYS', '*mark:*:100')[1])" 0`); len(left) < len("10000") || strings.HasPrefix(left, "-") {
		t.Errorf("the mark of an event expires in %s ms", left)
	}

	// What is used is seen.
	o := operator{t, t.TempDir(), two.debug}
	o.shell("weir top --budgets", `on this server`, `(?m)^105 % +0 of 1000000 +used up +20\d\d-\d\d-01 00:00 UTC +█ +shop tokens_of_team=green, month calendar$`,
		`(?m)^90 % +100000 of 1000000 +(not before|[-0-9: ]+ \w+) +20\d\d-\d\d-01 00:00 UTC +\S+ +shop tokens_of_team=red`)
}
