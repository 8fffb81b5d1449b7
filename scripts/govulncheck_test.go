package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestGovulncheckFailsByFindings runs the script with what govulncheck says and
// exits with.
func TestGovulncheckFailsByFindings(t *testing.T) {
	shell := testenv.Shell(t)
	for _, tt := range []struct {
		name, says string
		exit       string
		fails      bool
		leftOut    bool
	}{
		{name: "nothing", says: "No vulnerabilities found.", exit: "0"},
		{name: "a finding", says: "Vulnerability #1: GO-2024-0001", exit: "3", fails: true},
		{name: "a finding that names the database", says: "govulncheck: fetching vulnerabilities: GO-2024-0001", exit: "3", fails: true},
		{name: "no database", says: "govulncheck: fetching vulnerabilities: Get \"https://vuln.go.dev/index/modules.json.gz\": no such host", exit: "1", leftOut: true},
		{name: "does not compile", says: "govulncheck: loading packages: There are errors", exit: "1", fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stub := filepath.Join(t.TempDir(), "go")
			testenv.OK(t, os.WriteFile(stub, []byte("#!"+shell+"\necho \"$SAYS\" >&2; exit $EXIT\n"), 0o755))
			command := exec.Command(shell, "govulncheck.sh")
			command.Env = append(os.Environ(), "GO="+stub, "SAYS="+tt.says, "EXIT="+tt.exit)
			out, err := command.CombinedOutput()
			if (err != nil) != tt.fails || !strings.Contains(string(out), tt.says) || strings.Contains(string(out), "left out: ") != tt.leftOut {
				t.Errorf("got %v and %s", err, out)
			}
		})
	}
}
