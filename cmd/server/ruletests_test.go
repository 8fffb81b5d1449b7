package main

import (
	"strings"
	"syscall"
	"testing"

	"weir/internal/testenv"
)

const (
	passing = "rules: [a.yaml]\ntests:\n- {name: three a day, domain: api, steps: [{send: 4, request: [{user: a}], expect: {admitted: 3}}]}\n"
	failing = "rules: [a.yaml]\ntests:\n" +
		"- {name: four a day, domain: api, steps: [{send: 4, request: [{user: a}], expect: {admitted: 4}}]}\n" +
		"- {name: a thousand, domain: api, steps: [{hits_addend: 3, request: [{user: a}], expect: {code: OK}}]}\n"
	misspelt = "rules: [a.yaml]\ntest:\n"
)

func TestRuleTests(t *testing.T) {
	dir := rules(t, "a.yaml", good, "pass_test.yaml", passing, "fail_test.yaml", failing, "bad_test.yaml", misspelt)
	pass, fail, wrong := dir+"/pass_test.yaml", dir+"/fail_test.yaml", dir+"/bad_test.yaml"
	const failure = "fail_test.yaml:3:94: four a day: step 1 at 0s: admitted: expected 4, got 3\n    user=a: OVER_LIMIT, limit of 3 per day, remaining 0, retry_after 24h0m0s\n"
	both := rules(t, "a.yaml", good+"  - {key: none, rate_limit: {unit: day, requests_per_unit: 0}}\n",
		"charge_test.yaml", "rules: [a.yaml]\ntests:\n- {name: charge, domain: api, steps: [{request: [{user: a}, {none: b}]}, {request: [{user: a}], expect: {remaining: 2}}]}\n",
		"ai.yaml", "domain: ai\ndescriptors:\n- key: backend_name\n  descriptors:\n  - {key: user, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}\n"+
			"  - {key: all, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 9}}\n",
		"group_test.yaml", "rules: [ai.yaml]\ntests:\n- {name: group, domain: ai, steps: [{request: [{backend_name: a, user: u}, {backend_name: a, all: x}], expect: {code: OVER_LIMIT}}]}\n",
		"quota_test.yaml", "rules: [a.yaml]\ntests:\n- {name: quota, domain: api, steps: [{request: [{user: a}, {none: b}], expect: {code: OK}}]}\n")
	runCommands(t, []string{"test"}, []commandTest{
		{name: "pass", args: []string{pass}, stdout: []string{"passed: files=1 tests=1\n"}},
		{name: "one fails", args: []string{fail}, code: 1, stdout: []string{failure, "failed: files=1 tests=2 failed=1 invalid=0\n"}},
		{name: "none that fails is run", args: []string{"--run=^three", fail, pass}, stdout: []string{"passed: files=2 tests=1\n"}},
		{name: "none is run", args: []string{"--run=nothing", fail, pass}, code: 2, silent: true, stderr: []string{`weir: no test matches "nothing"` + "\n"}},
		{name: "a bad file", args: []string{wrong, fail}, code: 2, stdout: []string{failure, "invalid: files=2 tests=2 failed=1 invalid=1\n"},
			stderr: []string{"weir: " + wrong, wrong + `:2:1: unknown field "test" (did you mean tests?); use one of rules, tests`}},
		{name: "charge as the server's", env: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=false", args: []string{both + "/charge_test.yaml"}, code: 1, stdout: []string{"expected 2, got 1"}},
		{name: "shadow mode by variable", env: "SHADOW_MODE=true", args: []string{pass}, code: 1, stdout: []string{"expected 3, got 4"}},
		{name: "quota mode by variable", env: "QUOTA_MODE=true", args: []string{both + "/quota_test.yaml"}, stdout: []string{"passed"}},
		{name: "quotas of a group", args: []string{both + "/group_test.yaml"}, stdout: []string{"passed"}},
		{name: "quotas of no group", env: "QUOTA_GROUP_KEYS=model", args: []string{both + "/group_test.yaml"}, code: 1, stdout: []string{"expected OVER_LIMIT, got OK"}},
		{name: "buckets of AI Gateway", args: []string{"../../examples/ai-gateway/rules/quota_test.yaml"}, stdout: []string{"passed"}},
		{name: "buckets as AI Gateway documents them", env: "QUOTA_GROUP_KEYS=none", args: []string{"../../examples/ai-gateway/rules/quota_test.yaml"}, code: 1, stdout: []string{"expected OVER_LIMIT, got OK"}},
		{name: "no quota mode", args: []string{both + "/quota_test.yaml"}, code: 1, stdout: []string{"expected OK, got OVER_LIMIT"}},
		{name: "directory", args: []string{dir}, code: 2, stdout: []string{"four a day", "invalid: files=3 tests=3 failed=1 invalid=1\n"}, stderr: []string{"bad_test.yaml:2:1"}},
		{name: "directory without tests", args: []string{t.TempDir()}, code: 2, silent: true, stderr: []string{"weir: finding tests: no file below ", " ends in _test.yaml\n"}},
		{name: "rules", args: []string{dir + "/a.yaml"}, code: 2, stdout: []string{"invalid: files=1"}, stderr: []string{"weir: " + dir + "/a.yaml:1:1: this is a file of rules, check it with weir validate"}},
		{name: "nowhere to report", args: []string{"--junit=" + dir, pass}, code: 2, stderr: []string{"weir: open " + dir}},
	})
}

// A signal stops a real process during its tests. The report contains the earlier results.
func TestRuleTestsInterrupted(t *testing.T) {
	long := "rules: [a.yaml]\ntests:\n- {name: long, domain: api, steps: [" +
		strings.Repeat("{send: 1000000, request: [{user: a}], expect: {code: OVER_LIMIT}}, ", 1000) + "]}\n"
	dir := rules(t, "a.yaml", good, "fail_test.yaml", failing, "invalid_test.yaml", misspelt, "long_test.yaml", long, "pass_test.yaml", passing)
	command := inProcess("test", "--junit=report.xml", "fail_test.yaml", "invalid_test.yaml", "long_test.yaml", "pass_test.yaml")
	command.Dir = dir
	log := start(t, command)
	log.WaitFor(t, "unknown field") // from here on, the signal is noticed during the third file at the earliest
	testenv.OK(t, command.Process.Signal(syscall.SIGTERM))
	_ = command.Wait()
	compare(t, exitUsage, []string{"\ninterrupted: files=3 tests=2 failed=1 invalid=1\n"}, nil, command.ProcessState.ExitCode(), log.String(), "")
	compare(t, 0, []string{
		`long_test.yaml" tests="1" failures="0" errors="1"`, `fail_test.yaml" tests="2" failures="1" errors="0"`, `invalid_test.yaml" tests="1" failures="0" errors="1"`,
		"expected 4, got 3", "unknown field",
	}, nil, 0, testenv.Read(t, dir+"/report.xml"), "")
}
