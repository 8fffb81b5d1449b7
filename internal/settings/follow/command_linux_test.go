package follow

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testenv"
)

func TestCommand(t *testing.T) {
	for name, c := range map[string]struct {
		words         []string
		want, problem string
	}{
		"good":         {[]string{"echo", "u:swordfish"}, "u:swordfish", ""},
		"no shell":     {[]string{"echo", "$HOME;", "`ls`"}, "$HOME; `ls`", ""},
		"nothing":      {[]string{"true"}, "", "output of the command: it is empty"},
		"fails":        {[]string{"sh", "-c", "echo swordfish; echo swordfish >&2; exit 3"}, "", "the command failed: exit status 3"},
		"is not there": {[]string{"swordfish"}, "", "the command failed: executable file not found in $PATH"},
		"no such path": {[]string{"/swordfish"}, "", "the command failed: no such file or directory"},
		"prints a lot": {[]string{"head", "-c", "10000000", "/dev/zero"}, "", "it is longer than 65536 bytes"},
	} {
		wantText(t, name, c.want, "", c.problem)(Command(t.Context(), c.words))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantText(t, "takes long", "", "", "the command failed: context deadline exceeded")(Command(ctx, []string{"sleep", "60"}))
}

// TestCommandLeavesNoProcess makes this process the new parent of a command's children, as the first
// process of a container is.
func TestCommandLeavesNoProcess(t *testing.T) {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	if _, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); err != 0 {
		t.Fatal(err)
	}
	for name, last := range map[string]string{ // the last command of the script
		"fails": "exit 3", "holds its output open": "echo swordfish", "takes too long": "sleep 60",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "group")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				// The shell has two children, and the second has children of its own.
				_, err := Command(ctx, []string{"sh", "-c", "sleep 60 & (sleep 60 & sleep 60) & echo $$ >" + path + "; " + last})
				ended <- err
			}()
			var group int
			testenv.Eventually(t, func() error {
				text, _ := os.ReadFile(path) // at first it is missing or empty
				var err error
				group, err = strconv.Atoi(strings.TrimSpace(string(text)))
				return err
			})
			if strings.HasPrefix(last, "sleep") {
				cancel()
			}
			if err := <-ended; err == nil {
				t.Error("no error of a command that leaves processes")
			}
			if err := syscall.Kill(-group, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("a process is left, or its entry: %v", err)
			}
		})
	}
}
