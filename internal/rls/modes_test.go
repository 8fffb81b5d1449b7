package rls

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// modeRules has a rule for each mode. A limit is 10 a minute; the rule trial has
// one more that is only tried, of 1 a minute.
const modeRules = `
domain: api
descriptors:
  - {key: plain, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: other, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: quota2, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: both, shadow_mode: true, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 10}}
  - key: trial
    rate_limit:
      - {unit: minute, requests_per_unit: 10}
      - {unit: minute, requests_per_unit: 1, shadow_mode: true}
  - {key: free, rate_limit: {unlimited: true}}
`

// modeCases say what becomes of a request for one unit of each of some rules,
// after those marked with ! were used up. A status that fits has 9 left if it was
// counted and 10 if not; override is a limit that the request brings along.
var modeCases = []struct {
	switches string // of the server: S is SHADOW_MODE, Q is QUOTA_MODE
	request  string
	want     string // the overall code, and of each descriptor its code and what is left
}{
	{"", "plain", "OK: OK 9"},
	{"", "plain!", "OVER: OVER 0"},
	{"", "plain! other", "OVER: OVER 0, OK 10"},
	{"", "override!", "OVER: OVER 0"},
	{"", "override! shadow", "OVER: OVER 0, OK 10"},

	{"", "shadow!", "OK: OK 0"},
	{"", "shadow! plain", "OK: OK 0, OK 9"},
	{"", "shadow plain!", "OVER: OK 10, OVER 0"},
	{"", "shadow! plain!", "OVER: OK 0, OVER 0"},

	{"", "quota!", "OVER: OVER 0"},
	{"", "quota! quota2", "OK: OVER 0, OK 9"},
	{"", "quota! quota2!", "OVER: OVER 0, OVER 0"},
	{"", "quota! plain", "OVER: OVER 0, OK 10"},
	{"", "quota plain", "OK: OK 9, OK 9"},
	{"", "quota plain!", "OVER: OK 10, OVER 0"},
	{"", "quota! quota2 plain", "OK: OVER 0, OK 9, OK 9"},
	{"", "quota! quota2 plain!", "OVER: OVER 0, OK 10, OVER 0"},
	{"", "quota! shadow", "OVER: OVER 0, OK 10"}, // a trial is no quota that is left
	{"", "quota! free", "OVER: OVER 0, OK -"},
	{"", "quota! stranger", "OVER: OVER 0, OK -"},

	{"", "both!", "OK: OK 0"},
	{"", "both! quota!", "OVER: OK 0, OVER 0"},
	{"", "both quota!", "OVER: OK 10, OVER 0"},
	{"", "trial! plain", "OVER: OVER 0, OK 10"},
	{"", "trial", "OK: OK 9"},

	{"S", "plain", "OK: OK 9"},
	{"S", "plain!", "OK: OVER 0"},
	{"S", "plain! other", "OK: OVER 0, OK 9"},
	{"S", "override!", "OK: OVER 0"},
	{"S", "shadow!", "OK: OK 0"},
	{"S", "shadow! plain!", "OK: OK 0, OVER 0"},
	{"S", "quota!", "OK: OVER 0"},
	{"S", "quota! quota2", "OK: OVER 0, OK 9"},
	{"S", "both! plain!", "OK: OK 0, OVER 0"},
	{"S", "trial! plain", "OK: OVER 0, OK 9"},

	{"Q", "plain", "OK: OK 9"},
	{"Q", "plain!", "OVER: OVER 0"},
	{"Q", "plain! other", "OK: OVER 0, OK 9"},
	{"Q", "plain! other!", "OVER: OVER 0, OVER 0"},
	{"Q", "plain! quota", "OK: OVER 0, OK 9"},
	{"Q", "plain! quota!", "OVER: OVER 0, OVER 0"},
	{"Q", "plain! shadow", "OVER: OVER 0, OK 10"},
	{"Q", "plain! both", "OVER: OVER 0, OK 10"},
	{"Q", "shadow!", "OK: OK 0"},
	{"Q", "override! plain", "OK: OVER 0, OK 9"},
	{"Q", "override!", "OVER: OVER 0"},
	{"Q", "plain! stranger", "OVER: OVER 0, OK -"},

	{"SQ", "plain!", "OK: OVER 0"},
	{"SQ", "plain! other!", "OK: OVER 0, OVER 0"},
	{"SQ", "plain! other", "OK: OVER 0, OK 9"},
	{"SQ", "shadow! both!", "OK: OK 0, OK 0"},
}

func TestModes(t *testing.T) {
	for _, tc := range modeCases {
		t.Run(tc.switches+" "+tc.request, func(t *testing.T) {
			opts := options(t, modeRules)
			opts.ShadowMode = strings.Contains(tc.switches, "S")
			opts.QuotaMode = strings.Contains(tc.switches, "Q")
			s := opts.service()
			request := "domain: 'api' "
			for key := range strings.FieldsSeq(tc.request) {
				name, usedUp := strings.CutSuffix(key, "!")
				descriptor := d(name, "a")
				if name == "override" {
					descriptor = d(name, "a", "limit {requests_per_unit: 10 unit: MINUTE}")
				}
				if usedUp {
					decide(t, s, "domain: 'api' hits_addend: 10 "+descriptor)
				}
				request += descriptor
			}
			if got := outline(decide(t, s, request)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// outline is the answer of a call as modeCases write it.
func outline(c *call) string {
	names := map[bool]string{false: "OK", true: "OVER"}
	var statuses []string
	for _, s := range c.result.Statuses {
		left := "-"
		if s.Limit != nil {
			left = fmt.Sprint(s.Remaining)
		}
		statuses = append(statuses, names[s.OverLimit]+" "+left)
	}
	return names[c.result.Denied] + ": " + strings.Join(statuses, ", ")
}

// The dashboards of the reference tell how many requests SHADOW_MODE lets pass:
// those that would be denied without it, no others.
func TestShadowModeCountsWhatItLetsPass(t *testing.T) {
	for _, tc := range []struct {
		quotaMode bool
		request   string
		want      float64
	}{
		{false, d("plain", "a"), 0},
		{false, d("plain", "a") + "hits_addend: 11", 1},
		{false, d("shadow", "a") + "hits_addend: 11", 0},
		{false, d("quota", "a") + d("quota2", "a", "hits_addend {value: 11}"), 0},
		{false, d("quota", "a") + d("quota2", "a") + "hits_addend: 11", 1},
		{true, d("plain", "a") + d("other", "a", "hits_addend {value: 11}"), 0},
		{true, d("plain", "a") + d("other", "a") + "hits_addend: 11", 1},
		{false, d("stranger", "a"), 0},
	} {
		opts := options(t, modeRules)
		opts.ShadowMode, opts.QuotaMode = true, tc.quotaMode
		s := opts.service()
		decide(t, s, "domain: 'api' "+tc.request)
		if got := testutil.ToFloat64(s.metrics.globalShadow); got != tc.want {
			t.Errorf("%s: counted %v, want %v", tc.request, got, tc.want)
		}
	}
}
