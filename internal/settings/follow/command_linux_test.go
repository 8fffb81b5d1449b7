package follow

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"weir/internal/testenv"
)

// TestCommandLeavesNoZombie has this process be the parent of what a command leaves, as the
// first process of a container is.
func TestCommandLeavesNoZombie(t *testing.T) {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	if _, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); err != 0 {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "group")
	// The first two sleep on, the third is a child of the second.
	if _, err := Command(t.Context(), []string{"sh", "-c", "echo $$ >" + path + "; sleep 60 & (sleep 60 & sleep 60) & exit 3"}); err == nil {
		t.Error("no error of a command that fails")
	}
	text := testenv.Must(os.ReadFile(path))(t)
	group := testenv.Must(strconv.Atoi(strings.TrimSpace(string(text))))(t)
	if pid, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("process %d is left, error %v", pid, err)
	}
}
