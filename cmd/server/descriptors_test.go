package main

import (
	"encoding/json"
	"os"
	"os/exec"
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
	if err := os.WriteFile(file, []byte(envoyMapping), 0o600); err != nil {
		t.Fatal(err)
	}
	example := filepath.Join(testenv.Repository(t), "examples/envoy/envoy.yaml")
	every := filepath.Join(testenv.Repository(t), "e2e/testdata/descriptors.yaml")
	for _, tt := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr []string
	}{
		{"text", []string{file, "--header", "X-User: a\x1bb", "--header=x-plan:gold"}, 0, []string{
			"user=a\\x1bb\n  domain: shop and more\n  from:   " + file + ":3:5: rate_limits[0]\n  hits:   2\n  next:   weir explain --config PATH 'shop and more' 'user=a\\x1bb' --hits 2\n",
			"\nplan=gold\n",
			"of=\\x27a\\,b\n", "when:   after the response", `weir explain --config PATH 'shop and more' 'of=\x27a\,b'`,
		}, []string{"note: " + file + ":8:15: rate_limits[3].actions[0]: source_cluster is Envoy's"}},
		{"no entries", []string{file}, 0, []string{"(without entries, no limit applies)\n"}, nil},
		{"example", []string{example, "--path", "/login", "--header=x-user:alice"}, 0, []string{"user=alice,path=/login\n", "remote_address=127.0.0.1\n"}, nil},
		{"client", []string{every, "--path=/address", "--header=x-forwarded-for:7.7.7.7, 192.0.2.2"}, 0, []string{"remote_address=192.0.2.2\n"}, nil},
		{"none", []string{example, "--path", "/search"}, 1, []string{"Envoy sends no descriptor for this request.\n"}, nil},
		{"no file", []string{file + "x"}, 2, nil, []string{"weir: open " + file + "x: no such file"}},
		{"no configuration", []string{example[:len(example)-len("envoy.yaml")] + "rules/api.yaml"}, 2, nil, []string{"weir: invalid Envoy configuration:\n", "this is not a configuration of Envoy"}},
		{"bad header", []string{file, "--header=x"}, 2, nil, []string{`weir: header "x": use NAME:VALUE, such as x-user:alice`}},
		{"pseudo header", []string{file, "--header=:path:/"}, 2, nil, []string{`weir: header ":path:/": use NAME:VALUE`}},
		{"host", []string{file, "--header=host:x"}, 2, nil, []string{"weir: header host: use --authority instead"}},
		{"bad path", []string{file, "--path=x"}, 2, nil, []string{`weir: --path: "x" does not begin with /`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := call(t, append([]string{"descriptors"}, tt.args...)...)
			compare(t, tt.code, tt.stdout, tt.stderr, code, stdout, stderr)
		})
	}
}

// TestNextOfDescriptors names no path of the rules if the environment does.
func TestNextOfDescriptors(t *testing.T) {
	t.Setenv("RUNTIME_ROOT", t.TempDir())
	example := filepath.Join(testenv.Repository(t), "examples/envoy/envoy.yaml")
	code, stdout, stderr := call(t, "descriptors", example, "--header=x-user:alice")
	compare(t, 0, []string{"  next:   weir explain api user=alice"}, nil, code, stdout, stderr)
}

func TestDescriptorsAsJSON(t *testing.T) {
	command := exec.Command(os.Args[0], "descriptors", "-", "--output=json", "--header=x-user:\xff")
	command.Env = append(os.Environ(), asProgram+"=1")
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
