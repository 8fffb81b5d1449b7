package main

import (
	"path/filepath"
	"testing"
)

func TestExplain(t *testing.T) {
	dir := rules(t, "a.yaml", good)
	two := rules(t, "a.yaml", good, "b.yaml", more)
	wrong := rules(t, "a.yaml", bad)
	explain := func(args ...string) []string {
		return append([]string{"explain", "--config=" + dir, "--redis-url=redis:6379"}, args...)
	}
	runCommands(t, nil, []commandTest{
		{name: "a rule", args: explain("api", "user=alice"), stdout: []string{"rule api|user (" + dir + "/a.yaml:3:5)\n", "3 per day", "w1|api|user=alice|1d", "2 remaining"}, absent: "slot "},
		{name: "type of no Redis", env: "REDIS_TYPE=CLUSTER", args: []string{"explain", "--config=" + dir, "api", "user=alice"}, absent: "slot "},
		{name: "rules by variable", env: "CONFIG_PATH=" + dir, args: []string{"explain", "api", "user=alice"}, stdout: []string{"rule api|user ("}},
		{name: "rules of the runtime", env: "RUNTIME_ROOT=" + filepath.Dir(dir), args: []string{"explain", "--runtime-appdirectory=" + filepath.Base(dir), "api", "user=alice"}, stdout: []string{"rule api|user ("}},
		{name: "shadow mode by variable", env: "SHADOW_MODE=true", args: explain("--hits=4", "api", "user=alice"), stdout: []string{"because SHADOW_MODE is on", "is admitted"}},
		{name: "quota mode by variable", env: "QUOTA_MODE=true", args: explain("api", "user=alice"), stdout: []string{"because QUOTA_MODE is on"}},
		{name: "escaped", args: explain("api", `user=a\,b=c`), stdout: []string{`user="a,b=c"`}},
		{name: "assigned", args: explain("--assigned=7", "api", "user=alice"), stdout: []string{"7 per day", "assigned, which comes before the rule's 3 per day"}},
		{name: "unlimited", args: explain("--assigned=unlimited", "api", "user=alice"), stdout: []string{"assigned, which comes before the rule's 3 per day"}},
		{name: "prefix", args: explain("--cache-key-prefix=p:", "api", "user=alice"), stdout: []string{" p:w1|api|user=alice|"}},
		{name: "cluster", env: "REDIS_TYPE=CLUSTER", args: explain("api", "user=alice"), stdout: []string{" w1|api|user=alice{71}|", "slot "}},
		{name: "prefix in a cluster", args: explain("--redis-type=cluster", "--cache-key-prefix={a}", "api", "user"), code: 2, stderr: []string{"'{' is not allowed in a cluster"}},
		{name: "digests by variable", env: "CACHE_KEY_HASH_VALUES=true", args: explain("api", "user=alice"), stdout: []string{" w1|api|user=#"}},
		{name: "charge by variable", env: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=false", args: explain("api", "user=alice"), stdout: []string{"charge     always"}},
		{name: "hits", args: explain("--hits=4", "api", "user=alice"), stdout: []string{"4 on a fresh counter: never fits, but is counted", "is denied"}},
		{name: "JSON", args: explain("--output=json", "--hits=2", "api", "user=alice"), stdout: []string{`"rule": "api|user"`, `"hits": 2`, `"key": "w1|api|user=alice|1d"`}},
		{name: "bytes", args: explain("api", "user=\xff"), stdout: []string{`  user="\xff"`, `"w1|api|user=\xff|1d"`}},
		{name: "no rule", args: explain("api", "path=/"), code: 1, stdout: []string{"no rule applies: below the domain nothing matches path=/", "there are: user\n"}},
		{name: "misspelt key", args: explain("api", "usr=alice"), code: 1, stdout: []string{"nothing matches usr=alice (did you mean user=alice?)", "there are: user\n"}},
		{name: "misspelt domain", args: explain("apii", "user=alice"), code: 1, stdout: []string{`there are no rules for the domain "apii", did you mean "api"?`}},
		{name: "colon for =", args: explain("api", "user:alice"), code: 1, stdout: []string{`nothing matches "user:alice" (did you mean user=alice?)`}},
		{name: "two files of one domain, merged", args: []string{"explain", "--merge-domain-config", "--config=" + two, "api", "path=/"}, stdout: []string{"whitelist entry"}},

		{name: "two files of one domain", args: []string{"explain", "--config=" + two, "api", "path=/"}, code: 2, stderr: []string{"weir: invalid rules:\n" + two + "/b.yaml:1:9: domain"}},
		{name: "bad rules", args: []string{"explain", "--config=" + wrong, "api", "a"}, code: 2, stderr: []string{"\n" + wrong + "/a.yaml:4:", "\n" + wrong + "/a.yaml:6:"}},
		{name: "no rules", args: []string{"explain", "--config=" + filepath.Join(dir, "none"), "api", "a"}, code: 2, stderr: []string{"none: no such file", " (see --config, CONFIG_PATH)\n"}},
		{name: "no file of rules", args: []string{"explain", "--runtime-root=" + dir, "api", "a"}, code: 2, stderr: []string{"reading rules: ", " (see RUNTIME_ROOT, RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY)\n"}},
		{name: "empty directory", args: []string{"explain", "--config=" + t.TempDir(), "api", "a"}, code: 2, stderr: []string{"weir: no rule files in "}},
		{name: "bad descriptor", args: explain("api", "user=alice,"), code: 2, stderr: []string{`weir: <descriptor>: "user=alice,": entry 2 has no key`}},
		{name: "bad prefix", args: explain("--cache-key-prefix=a|b", "api", "user"), code: 2, stderr: []string{"'|' is not allowed"}},
		{name: "bad hits", args: explain("--hits=-1", "api", "user"), code: 2, stderr: []string{`weir: --hits: expected a valid 64 bit uint but got "-1"`}},
		{name: "empty domain", args: explain("", "user"), code: 2, stderr: []string{"weir: the domain is empty\n"}},
	})
}
