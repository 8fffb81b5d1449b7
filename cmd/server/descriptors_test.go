package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/offline/envoyconfig"
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
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	testenv.OK(t, os.WriteFile(file, []byte(envoyMapping), 0o600))
	example := filepath.Join(testenv.Repository(t), "examples/envoy/envoy.yaml")
	every := filepath.Join(testenv.Repository(t), "e2e/testdata/descriptors.yaml")
	runCommands(t, []string{"descriptors"}, []commandTest{
		{name: "text", args: []string{file, "--header", "X-User: a\x1bb", "--header=x-plan:gold"}, stdout: []string{
			"user=a\\x1bb\n  domain: shop and more\n  from:   " + file + ":3:5: rate_limits[0]\n  hits:   2\n  next:   weir explain --config PATH 'shop and more' 'user=a\\x1bb' --hits 2\n",
			"\nplan=gold\n",
			"of=\\x27a\\,b\n", "when:   after the response", `weir explain --config PATH 'shop and more' 'of=\x27a\,b'`,
		}, stderr: []string{"note: " + file + ":8:15: rate_limits[3].actions[0]: source_cluster is Envoy's"}},
		{name: "example", args: []string{example, "--path", "/login", "--header=x-user:alice"}, stdout: []string{"user=alice,path=/login\n", "remote_address=127.0.0.1\n"}},
		{name: "client", args: []string{every, "--path=/address", "--header=x-forwarded-for:7.7.7.7, 192.0.2.2"}, stdout: []string{"remote_address=192.0.2.2\n"}},
		{name: "none", args: []string{example, "--path", "/search"}, code: 1, stdout: []string{"Envoy sends no descriptor for this request.\n"}},
		{name: "no configuration", args: []string{example[:len(example)-len("envoy.yaml")] + "rules/api.yaml"}, code: 2, stderr: []string{"weir: invalid Envoy configuration:\n", "this is not a configuration of Envoy"}},
		{name: "bad header", args: []string{file, "--header=x"}, code: 2, stderr: []string{`weir: header "x": use NAME:VALUE, such as x-user:alice`}},
		{name: "host", args: []string{file, "--header=host:x"}, code: 2, stderr: []string{"weir: header host: use --authority instead"}},
		{name: "bad path", args: []string{file, "--path=x"}, code: 2, stderr: []string{`weir: --path: "x" does not begin with /`}},
	})
}

// TestNextOfDescriptors names no path of the rules if the environment does.
func TestNextOfDescriptors(t *testing.T) {
	t.Setenv("RUNTIME_ROOT", t.TempDir())
	example := filepath.Join(testenv.Repository(t), "examples/envoy/envoy.yaml")
	code, stdout, stderr := call(t, "descriptors", example, "--header=x-user:alice")
	compare(t, 0, []string{"  next:   weir explain api user=alice"}, nil, code, stdout, stderr)
}

func TestDescriptorsAsJSON(t *testing.T) {
	command := inProcess("descriptors", "-", "--output=json", "--header=x-user:\xff")
	command.Stdin = strings.NewReader(envoyMapping)
	out, err := command.Output()
	var answer envoyconfig.Report
	if err != nil || json.Unmarshal(out, &answer) != nil || len(answer.Descriptors) != 3 {
		t.Fatalf("%v in\n%s", err, out)
	}
	first := answer.Descriptors[0]
	if first.Domain != "shop and more" || first.Place != "stdin:3:5: rate_limits[0]" || string(first.Entries[0].ValueBase64) != "\xff" ||
		first.Explain != `weir explain --config PATH 'shop and more' 'user=\xff' --hits 2` || *first.HitsAddend != 2 {
		t.Errorf("first %+v", first)
	}
	if last := answer.Descriptors[2]; !last.OnStreamDone || last.Descriptor != `of=\x27a\,b` {
		t.Errorf("last %+v", last)
	}
	if len(answer.Notes) != 1 {
		t.Errorf("notes %+v", answer.Notes)
	}
}
