package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// What cannot be printed is an error of every command that prints.
func TestNowhereToPrint(t *testing.T) {
	dir := rules(t, "a.yaml", good, "pass_test.yaml", passing)
	wrong := rules(t, "a.yaml", bad)
	for name, args := range map[string][]string{
		"version": {"version"}, "version by flag": {"--version"}, "help": {"help"}, "help by flag": {"validate", "--help"},
		"valid": {"validate", dir}, "problems": {"validate", wrong}, "test": {"test", dir},
		"explain": {"explain", "--config=" + dir, "api", "user"}, "no rule": {"explain", "--config=" + dir, "api", "path"},
		"explain as JSON": {"explain", "--output=json", "--config=" + dir, "api", "user"},
		"bench":           {"bench", oracle{}.start(t), "--requests=10", "--warmup=0s"},
	} {
		t.Run(name, func(t *testing.T) {
			full := testenv.Must(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
			defer full.Close()
			var stderr bytes.Buffer
			code := run(t.Context(), args, full, &stderr)
			compare(t, exitUsage, nil, []string{"weir: printing: write /dev/full: no space left on device\n"}, code, "", stderr.String())
			if n := strings.Count(stderr.String(), "no space"); n != 1 {
				t.Errorf("it is told %d times:\n%s", n, stderr.String())
			}
		})
	}
}
