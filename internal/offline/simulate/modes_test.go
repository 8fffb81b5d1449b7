package simulate

import (
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"weir/internal/plan"
)

// SHADOW_MODE and QUOTA_MODE work like setting the same field in every rule. The report begins with a warning about them.
func TestModes(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: user
    descriptors:
      - key: path
        rate_limit: {unit: minute, requests_per_unit: 3}
  -
    rate_limit: {unit: minute, requests_per_unit: 1}
`
	log := jsonLog(t, randomLog(rand.New(rand.NewPCG(5, 5)), 500))
	each := func(field string) string {
		return regexp.MustCompile(`( *)rate_limit: .*\n`).ReplaceAllString(rules, "$0${1}"+field+"\n")
	}
	config := mustEnvoy(t, byAddressAndPath+"  - actions: [{generic_key: {descriptor_value: all}}]\n")
	for _, test := range []struct {
		field, warning string
		plan           plan.Options
	}{
		{"shadow_mode", "SHADOW_MODE is on: no request is denied", plan.Options{ShadowMode: true}},
		{"quota_mode", "QUOTA_MODE is on: a request is denied only if all its limits are exceeded", plan.Options{QuotaMode: true}},
	} {
		t.Run(test.field, func(t *testing.T) {
			run := func(rules string, by plan.Options) *Report {
				return mustRun(t, Options{Logs: []string{log}, Envoy: config, Rules: mustRules(t, rules), Plan: by, Shares: []float64{0, 0.001, 0.01}})
			}
			got, want := run(rules, test.plan), run(each(test.field+": true"), plan.Options{})
			for i := range want.Limits {
				got.Limits[i].Location = want.Limits[i].Location
			}
			if !reflect.DeepEqual(got.Limits, want.Limits) || got.Denied != want.Denied || got.Limits[0].Denied == 0 {
				t.Errorf("%+v\nwant\n%+v", got, want)
			}
			if !slices.Equal(got.Warnings, []string{test.warning}) || want.Warnings != nil {
				t.Errorf("warnings are %q and %q", got.Warnings, want.Warnings)
			}
		})
	}
}

// The quotas of one group deny like enforced limits. Without GroupKeys, all quotas of a request must be exceeded.
func TestQuotaGroups(t *testing.T) {
	log := jsonLog(t, randomLog(rand.New(rand.NewPCG(5, 5)), 500))
	config := mustEnvoy(t, `
domain: api
rate_limits:
  - actions: [{generic_key: {descriptor_key: backend, descriptor_value: a}}, {remote_address: {}}]
  - actions: [{generic_key: {descriptor_key: backend, descriptor_value: a}}, {request_headers: {header_name: x-user, descriptor_key: user}}]
`)
	denied := func(quota string, by plan.Options) uint64 {
		const of = "{unit: minute, requests_per_unit: 2}, quota_mode: "
		rules := "{domain: api, descriptors: [{key: backend, descriptors: [{key: remote_address, rate_limit: " + of + quota + "}, {key: user, rate_limit: " + of + quota + "}]}]}"
		return mustRun(t, Options{Logs: []string{log}, Envoy: config, Rules: mustRules(t, rules), Plan: by}).Denied
	}
	grouped, enforced, flat := denied("true", plan.Options{GroupKeys: []string{"backend"}}), denied("false", plan.Options{}), denied("true", plan.Options{})
	if grouped != enforced || flat == 0 || flat >= enforced {
		t.Errorf("%d requests are denied by a group, %d by enforced limits, %d by quotas alone", grouped, enforced, flat)
	}
}
