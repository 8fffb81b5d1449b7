package rls

import (
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

var (
	//go:embed testdata/answers.txt
	answers string
	//go:embed testdata/modes.yaml
	modeRules string
	//go:embed testdata/modes.txt
	modes string
)

func TestAnswers(t *testing.T) {
	for talk := range strings.SplitSeq(answers, "\n# ") {
		name, steps, _ := strings.Cut(talk, "\n")
		t.Run(name, func(t *testing.T) {
			conn := serve(t, options(t, rules).service())
			for step := range strings.Lines(steps) {
				if request, want, is := strings.Cut(strings.TrimSpace(step), " -> "); is {
					expect(t, conn, request, want)
				}
			}
		})
	}
}

func TestModes(t *testing.T) {
	row, details := regexp.MustCompile(`(?m)^\[(.*)\] (.*) -> (.*)$`), regexp.MustCompile(` of [^,]*`)
	found := row.FindAllStringSubmatch(modes, -1)
	if len(found) < 50 {
		t.Fatalf("%d rows", len(found))
	}
	for _, r := range found {
		t.Run(r[1]+" "+r[2], func(t *testing.T) {
			got, inShadow := answerInModes(t, r[1], r[2])
			testenv.Equal(t, details.ReplaceAllString(got, ""), r[3], "the answer")
			// The metric counts only the requests that would be denied without SHADOW_MODE, as
			// the dashboards of envoyproxy/ratelimit expect.
			without, _ := answerInModes(t, strings.ReplaceAll(r[1], "S", ""), r[2])
			if isDenied := strings.HasPrefix(without, "OVER"); inShadow != (isDenied && strings.Contains(r[1], "S")) {
				t.Errorf("counted as let pass: %t, without SHADOW_MODE %s", inShadow, without)
			}
		})
	}
}

// answerInModes returns the answer to a row of modes.txt, and whether a metric counted the
// request as admitted only because of SHADOW_MODE.
func answerInModes(t *testing.T, serverModes, keys string) (answer string, inShadow bool) {
	t.Helper()
	opts := options(t, modeRules)
	opts.ShadowMode, opts.QuotaMode = strings.Contains(serverModes, "S"), strings.Contains(serverModes, "Q")
	s, all := opts.service(), ""
	for key := range strings.FieldsSeq(keys) {
		name, usedUp := strings.CutSuffix(key, "!")
		descriptor := name + "=a"
		if name == "override" {
			descriptor += "(10/MINUTE)"
		}
		if usedUp {
			decide(t, s, descriptor+" +10")
		}
		all += descriptor + " "
	}
	answer = outline(response(t, decide(t, s, all).response))
	return answer, testutil.ToFloat64(s.metrics.globalShadow) == 1
}

// TestCharge has hits that fit, in a request that another limit denies. Depending on the
// settings, they are charged.
func TestCharge(t *testing.T) {
	for _, tc := range []struct {
		server limiter.Charge
		// Remaining units of the four limits of rule kept, which allow 9 each: a limit without
		// charge, and limits with charge auto, admitted and always.
		plain, ownAddend [4]int64
		override         int64 // remaining units of an override
	}{
		{limiter.ByDefault, [4]int64{9, 9, 9, 8}, [4]int64{8, 8, 9, 8}, 9},
		{limiter.Auto, [4]int64{9, 9, 9, 8}, [4]int64{8, 8, 9, 8}, 9},
		{limiter.Admitted, [4]int64{9, 9, 9, 8}, [4]int64{9, 8, 9, 8}, 9},
		{limiter.Always, [4]int64{8, 9, 9, 8}, [4]int64{8, 8, 9, 8}, 8},
	} {
		for note, want := range map[string][4]int64{
			"": tc.plain, "(1)": tc.ownAddend, "(0)": {9, 9, 9, 9}, "(refund)": {9, 9, 9, 9}, "(refund,1)": {9, 9, 9, 9},
			"(9/HOUR)": {tc.override},
		} {
			t.Run(fmt.Sprint(tc.server, note), func(t *testing.T) {
				opts := options(t, rules)
				opts.Charge = tc.server
				c := decide(t, opts.service(), "kept="+note+" nobody=a")
				var got [4]int64
				for i := range c.result.Plan.Hits[1:] {
					got[i] = c.result.Decisions[i].Remaining
				}
				if got != want || !c.result.Denied {
					t.Errorf("got %v and denied %t, want %v and a denied request", got, c.result.Denied, want)
				}
			})
		}
	}
}

// Each request peeks first and reports its usage later. With charge always, a third peek passes
// a limit of 2, as in envoyproxy/ratelimit, on which quota scripts rely.
func TestPeeksBeforeUsage(t *testing.T) {
	for charge, want := range map[limiter.Charge]int{limiter.ByDefault: 2, limiter.Auto: 2, limiter.Admitted: 2, limiter.Always: 3} {
		opts := options(t, rules)
		opts.Charge = charge
		s, passed := opts.service(), 0
		for range 5 {
			if c := decide(t, s, "user=a(0)"); !c.result.Denied {
				passed++
				decide(t, s, "user=a(1)")
			}
		}
		testenv.Equal(t, passed, want, "charge %v: peeks of 5 that passed", charge)
	}
}

func TestHeaders(t *testing.T) {
	for _, tc := range []struct {
		name     string
		requests []string
		want     string // limit, remaining and reset of the last request
		quotas   bool   // QUOTA_MODE
	}{
		{"large", []string{"large=a"}, "L5000000000 R4999999999 S30", false},
		{"admitted", []string{"user=a"}, "L2 R1 S30", false},
		{"no limit", []string{"stranger=a user=root user=friend"}, "", false},
		{"least remaining", []string{"path=/ user=a tokens=t"}, "L2 R1 S30", false},
		{"first of equals", []string{"path=/", "path=/ user=a"}, "L3 R1 S30", false},
		{"denied before least remaining", []string{"user=a +2", "tried=a user=a path=/"}, "L2 R0 S30", false},
		{"last of the denied", []string{"path=/ +3", "path=/ nobody=a"}, "L0 R0 S43230", false},
		{"a quota denies nothing by itself", []string{"model=a", "tried=a model=a model=b"}, "L1 R0 S1", false},
		{"with QUOTA_MODE no limit does", []string{"path=/ user=a +4"}, "L3 R0 S30", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opts := options(t, rules)
			opts.QuotaMode = tc.quotas
			opts.ResponseHeaders = Headers{Limit: "L", Remaining: "R", Reset: "S"}
			opts.RequestHeaders = Headers{Limit: "l", Remaining: "r", Reset: "s"}
			s := opts.service()
			var got *ratelimitv3.RateLimitResponse
			for _, request := range tc.requests {
				got = response(t, decide(t, s, request).response)
			}
			spell := func(headers []*corev3.HeaderValue) (text string) {
				for _, h := range headers {
					text += h.GetKey() + h.GetValue() + " "
				}
				return strings.TrimSpace(text)
			}
			back, on := spell(got.GetResponseHeadersToAdd()), spell(got.GetRequestHeadersToAdd())
			if back != tc.want || on != strings.ToLower(tc.want) {
				t.Errorf("got %q and %q, want %q", back, on, tc.want)
			}
		})
	}
}

// documentedJSON returns the metadata and the request in docs/rules.md.
func documentedJSON(t *testing.T) (metadata, request string) {
	t.Helper()
	text := testenv.Must(os.ReadFile("../../docs/rules.md"))(t)
	blocks := regexp.MustCompile("(?ms)^```json\n(.*?)^```").FindAllSubmatch(text, -1)
	if len(blocks) != 3 {
		t.Fatalf("docs/rules.md has %d blocks of JSON, want an event, metadata and a request", len(blocks))
	}
	return string(blocks[1][1]), string(blocks[2][1])
}

// The request to /json in docs/rules.md takes as many units as the text says.
func TestDocumentedJSONRequest(t *testing.T) {
	_, request := documentedJSON(t)
	w := post(options(t, `
domain: shop
descriptors:
  - {key: user, descriptors: [{key: path, rate_limit: {unit: hour, requests_per_unit: 20}}]}
  - {key: tokens_of, rate_limit: {unit: hour, requests_per_unit: 20}}
`).service().JSONHandler(), http.MethodPost, request)
	body := strings.ReplaceAll(w.Body.String(), " ", "")
	if w.Code != 200 || !regexp.MustCompile(`"limitRemaining":18,.*"limitRemaining":13,`).MatchString(body) {
		t.Errorf("answered %d %s, want 2 and 7 units to be taken of 20", w.Code, w.Body)
	}
}

// Weir returns the dynamic metadata in docs/rules.md.
func TestDocumentedMetadata(t *testing.T) {
	metadata, _ := documentedJSON(t)
	opts := options(t, `
domain: shop
descriptors:
  - key: user
    rate_limit: [{name: hard, unit: hour, requests_per_unit: 20}, {name: soft, unit: hour, requests_per_unit: 1, shadow_mode: true}]
    metadata: {team: core}
`)
	opts.DynamicMetadata = true
	got := response(t, decide(t, opts.service(), "domain:shop user=alice tenant=acme(7,10/HOUR) +2").response)
	wantStruct(t, got.GetDynamicMetadata(), metadata)
}
