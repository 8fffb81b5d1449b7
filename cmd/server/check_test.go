package main

import (
	"encoding/json"
	"testing"

	"weir/internal/testenv"
)

// TestCheck reports the problems of settings, secrets, certificates, rules, a real Redis and a
// control plane, all in one report.
func TestCheck(t *testing.T) {
	redis := testenv.RedisServer(t)
	replica := testenv.RedisReplica(t, redis)
	plane := testenv.StartControlPlane(t)
	plane.Set("v1", `{"name": "x", "domain": "api", "descriptors": [{"key": "user", "rate_limit": {"unit": "DAY", "requests_per_unit": 3}}]}`)
	bads := testenv.StartControlPlane(t)
	bads.Set("v1", `{"name": "x", "domain": "api", "descriptors": [{"key": "user"}, {"key": "user"}]}`)
	dir := rules(t, "a.yaml", good)
	wrong, hollow := rules(t, "a.yaml", bad), rules(t, "a.yaml", "domain: api\n")
	files := rules(t, "token", "short", "url", "localhost", "key", "no key")
	byXDS := func(addr string) []string {
		return []string{"--config-type=GRPC_XDS_SOTW", "--config-grpc-xds-server-url=" + addr}
	}
	const inMemory = "notice: counters are in memory of each server, because REDIS_URL is not set\n"
	runCommands(t, []string{"check"}, []commandTest{
		{name: "valid", args: []string{"--config=" + dir}, stdout: []string{"valid: files=1 domains=1 rules=1\n"}, stderr: []string{inMemory}},
		{name: "misspelt variable", env: "REDIS_ULR=redis://:swordfish@redis", args: []string{"--config=" + dir}, stdout: []string{"valid: "}, stderr: []string{"warning: $REDIS_ULR has no effect: did you mean REDIS_URL?\n", inMemory}},
		{name: "misspelt variable, strictly", env: "REDIS_ULR=x", args: []string{"--config=" + dir, "--strict"}, code: 1, stdout: []string{"$REDIS_ULR has no effect: did you mean REDIS_URL?\n"}, stderr: []string{inMemory}, absent: "valid: "},
		{name: "warning of the rules, strictly", args: []string{"--config=" + hollow, "--strict"}, code: 1, stdout: []string{"the domain \"api\" has no rules"}, absent: "valid: "},
		{name: "warning of the rules", args: []string{"--config=" + hollow}, stdout: []string{"valid: "}, stderr: []string{"the domain \"api\" has no rules"}},
		{name: "Redis", args: []string{"--config=" + dir, "--redis-url=" + redis.Addr()}, stdout: []string{"valid: "}, stderr: []string{"notice: counters are in Redis at " + redis.Addr() + "\n"}},
		{name: "control plane", args: byXDS(plane.Addr), stdout: []string{"valid: files=0 domains=1 rules=1\n"}},
		{name: "bad rules of a control plane", args: byXDS(bads.Addr), code: 1, stdout: []string{"rules from the control plane at ", "user is already at resource"}, absent: "valid: "},
		{name: "no control plane", args: byXDS("127.0.0.1:1"), code: 1, stdout: []string{"the control plane at 127.0.0.1:1 (node default) (see CONFIG_GRPC_XDS_SERVER_URL): ", "connection refused"}},
		{name: "a replica", args: []string{"--config=" + dir, "--redis-url=" + replica.Addr()}, code: 1, stdout: []string{"redis at " + replica.Addr() + " (see REDIS_URL): ", "read-only replica; use the address of its primary"}},
		{name: "no rules", args: []string{"--config=" + dir + "/none"}, code: 1, stdout: []string{"none: no such file or directory"}},
		{name: "problems of all", env: "DRAIN_DELAY=10", args: []string{"--config=" + wrong, "--redis-url=127.0.0.1:1", "--admin-token-file=" + files + "/token", "--port=http", "--grpc-server-use-tls", "--grpc-server-tls-cert=" + files + "/key", "--grpc-server-tls-key=" + files + "/key"}, code: 1, stdout: []string{
			wrong + "/a.yaml:4:24: ", "minuet", wrong + "/a.yaml:6:5: ", "colour", "\n--drain-delay ($DRAIN_DELAY): \"10\" has no unit; did you mean 10s?\n",
			"\n--port ($PORT): ", "\nADMIN_TOKEN_FILE: ", "the token must be 32 to 1024", "\nTLS of the gRPC listener ", "redis at 127.0.0.1:1 (see REDIS_URL): ",
		}},
		{name: "Redis with a bad setting", env: "DRAIN_DELAY=10", args: []string{"--config=" + dir, "--redis-url=127.0.0.1:1"}, code: 1, stdout: []string{"--drain-delay", "redis at 127.0.0.1:1 (see REDIS_URL): ", "connection refused"}},
		{name: "no value", args: []string{"--config=" + dir, "--drain-delay"}, code: 1, stdout: []string{"--drain-delay ($DRAIN_DELAY): needs a value\n"}},
		{name: "bad control plane", args: byXDS("u:swordfish@127.0.0.1:1"), code: 1, stdout: []string{"--config-grpc-xds-server-url ($CONFIG_GRPC_XDS_SERVER_URL): is not allowed"}, absent: "swordfish"},
		{name: "bad URL", args: []string{"--config=" + dir, "--redis-url=localhost"}, code: 1, stdout: []string{"--redis-url ($REDIS_URL): redis URL has no port; add a port, such as :6379\n"}},
		{name: "bad URL in a file", args: []string{"--config=" + dir, "--redis-url-file=" + files + "/url"}, code: 1, stdout: []string{"with the secrets of REDIS_URL_FILE: --redis-url ($REDIS_URL): redis URL has no port"}},
		{name: "no file of a secret", args: []string{"--config=" + dir, "--redis-url=" + redis.Addr(), "--redis-auth-file=" + files + "/none"}, code: 1, stdout: []string{"--redis-auth-file ($REDIS_AUTH_FILE): ", "no such file"}},
		{name: "usage", args: []string{"--nope"}, code: 2, stderr: []string{"weir: unknown flag --nope\n", "Usage: weir check"}},
	})
	_, stdout, _ := call(t, "check", "--config="+wrong, "--output=json")
	var r report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || r.Valid || len(r.Problems) != 3 || r.Problems[0].Line != 4 || r.Problems[2].Severity != "notice" {
		t.Errorf("%v, %s", err, stdout)
	}
}
