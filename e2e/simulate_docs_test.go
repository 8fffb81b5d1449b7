package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestLargeLog runs the commands of docs/simulate.md for a log with a known truth, with
// fewer lines.
func TestLargeLog(t *testing.T) {
	t.Parallel()
	root, dir := testenv.Repository(t), t.TempDir()
	var script string
	for _, b := range codeBlocks(t, filepath.Join(root, "docs/simulate.md")) {
		if b.language == "sh" {
			script = b.text
		}
	}
	for from, to := range map[string]string{
		"go run ./internal/offline/simulate/accesslog/generate -lines 1000000": buildGenerator(t) + " -lines 50000",
		"go run ./cmd/server": program(t),
		"docs/simulate/":      filepath.Join(root, "docs/simulate") + "/",
	} {
		if !strings.Contains(script, from) {
			t.Fatalf("there is no %q in\n%s", from, script)
		}
		script = strings.ReplaceAll(script, from, to)
	}
	cmd := exec.Command(testenv.Shell(t), "-ec", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "truth.json"))
	var truth knownLog
	if err == nil {
		err = json.Unmarshal(data, &truth)
	}
	if err != nil || len(truth.Abusers) != 3 {
		t.Fatalf("%d abusers, error %v", len(truth.Abusers), err)
	}
	report, _, _ := strings.Cut(string(out), "\n{") // where the truth begins
	for _, a := range truth.Abusers {
		if !strings.Contains(report, "remote_address="+a.Address+" ") {
			t.Errorf("the report does not name %s", a.Address)
		}
	}
	amounts := fmt.Sprintf("%.0f %.0f %.0f", truth.Amounts[0], truth.Amounts[1], truth.Amounts[2])
	if !strings.Contains(strings.Join(strings.Fields(report), " "), "200 per hour "+amounts) {
		t.Errorf("the report does not suggest %s:\n%s", amounts, report)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !strings.Contains(string(page), truth.Abusers[0].Address) {
		t.Errorf("the page does not name the worst client, error %v", err)
	}
}
