package descriptors

import (
	"bytes"
	"strings"
	"testing"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/testenv"
)

// Known faults of envoyproxy/ratelimit in reading rules. Package rls has tests for its faults
// with requests and answers.

// envoyproxy/ratelimit looks up rules by key and value joined with "_", so the rule for the
// key t_u applies to the entry t=u.
func TestFaultUnderscoreJoinsKeyAndValue(t *testing.T) {
	tree := load(t, `
domain: api
descriptors:
  - {key: t_u, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: v_w*, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: a, value: b_c, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: a_b, value: c, rate_limit: {unit: day, requests_per_unit: 1}}
`)
	for descriptor, want := range map[string]string{
		"t=u":   "",
		"t_u=x": "api|t_u",
		"v=wx":  "",
		"a=b_c": "api|a=b_c",
		"a_b=c": "api|a_b=c",
		"a=b":   "",
	} {
		got := ""
		if rule := tree.match("api", entries(descriptor)); rule != nil {
			got = rule.String()
		}
		testenv.Equal(t, got, want, "%s: got the rule", descriptor)
	}
}

// With one bad file, or without files, envoyproxy/ratelimit has no rules and admits everything.
func TestFaultBadFilesAllowEverything(t *testing.T) {
	good := File{"good.yaml", []byte("{domain: api, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}")}
	large := append([]byte("domain: web\n#"), bytes.Repeat([]byte("x"), strictyaml.MaxFileSize)...)
	testenv.Must(Load([]File{{"largest.yaml", large[:strictyaml.MaxFileSize]}}, Options{}))(t)
	for _, tc := range []struct {
		name  string
		files []File
		want  string // substring of the error
	}{
		{"no file", nil, "there are no rule files, at least one is required"},
		{"one of two is too large", []File{good, {"large.yaml", large}}, "large.yaml: the file is too large, at most 16 MiB are allowed"},
		{"one of two is no YAML", []File{good, {"bad.yaml", []byte("domain: [")}}, "bad.yaml:1"},
		{"one of two has a bad limit", []File{good, {"bad.yaml", []byte("{domain: web, descriptors: [{key: a, rate_limit: {unit: eon, requests_per_unit: 1}}]}")}}, "bad.yaml:1"},
		{"one of two is empty", []File{good, {"bad.yaml", nil}}, "bad.yaml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree, err := Load(tc.files, Options{})
			if tree != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got the tree %v and %v, want an error that tells %s", tree, err, tc.want)
			}
		})
	}
}
