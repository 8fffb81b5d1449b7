package main

import (
	"path/filepath"
	"testing"

	"weir/internal/testenv"
)

const envoyMapping = `domain: shop and more
rate_limits:
  - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
    hits_addend: {number: 2}
  - actions: [{generic_key: {descriptor_key: of, descriptor_value: "'a,b"}}]
    apply_on_stream_done: true
  - actions: [{request_headers: {header_name: x-plan, descriptor_key: plan, skip_if_absent: true}}]
  - actions: [{source_cluster: {}}]
`

func TestDescriptors(t *testing.T) {
	file := testenv.File(t, "envoy.yaml", envoyMapping)
	example := filepath.Join(testenv.Repository(t), "examples/envoy/envoy.yaml")
	every := filepath.Join(testenv.Repository(t), "e2e/testdata/descriptors.yaml")
	runCommands(t, []string{"descriptors"}, []commandTest{
		{name: "text", args: []string{file, "--header", "X-User: a\x1bb", "--header=x-plan:gold"}, stdout: []string{
			"user=a\\x1bb\n  domain: shop and more\n  from:   " + file + ":3:5: rate_limits[0]\n  hits:   2\n  next:   weir explain --config PATH 'shop and more' 'user=a\\x1bb' --hits 2\n",
			"\nplan=gold\n",
			"of=\\x27a\\,b\n", "when:   after the response", `weir explain --config PATH 'shop and more' 'of=\x27a\,b'`,
		}, stderr: []string{"note: " + file + ":8:15: rate_limits[3].actions[0]: source_cluster is Envoy's"}},
		{name: "JSON", stdin: envoyMapping, args: []string{"-", "--output=json", "--header=x-user:\xff"}, stdout: []string{
			`"domain": "shop and more",`, `"location": "stdin:3:5: rate_limits[0]"`, `"value_base64": "/w=="`, `"hits_addend": 2`, `weir explain --config PATH 'shop and more' 'user=\\xff' --hits 2`,
			`"descriptor": "of=\\x27a\\,b"`, `"on_stream_done": true`, `"notes": [`,
		}},
		{name: "example", args: []string{example, "--path", "/login", "--header=x-user:alice"}, stdout: []string{"user=alice,path=/login\n", "remote_address=127.0.0.1\n"}},
		{name: "rules by variable", env: "RUNTIME_ROOT=" + t.TempDir(), args: []string{example, "--header=x-user:alice"}, stdout: []string{"  next:   weir explain api user=alice"}},
		{name: "client", args: []string{every, "--path=/address", "--header=x-forwarded-for:7.7.7.7, 192.0.2.2"}, stdout: []string{"remote_address=192.0.2.2\n"}},
		{name: "none", args: []string{example, "--path", "/search"}, code: 1, stdout: []string{"Envoy sends no descriptor for this request.\n"}},
		{name: "no configuration", args: []string{example[:len(example)-len("envoy.yaml")] + "rules/api.yaml"}, code: 2, stderr: []string{"weir: invalid Envoy configuration:\n", "this is not a configuration of Envoy"}},
		{name: "bad header", args: []string{file, "--header=x"}, code: 2, stderr: []string{`weir: header "x": use NAME:VALUE, such as x-user:alice`}},
		{name: "host", args: []string{file, "--header=host:x"}, code: 2, stderr: []string{"weir: header host: use --authority instead"}},
		{name: "bad path", args: []string{file, "--path=x"}, code: 2, stderr: []string{`weir: --path: "x" does not begin with /`}},
	})
}
