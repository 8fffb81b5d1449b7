package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/testenv"
)

// terminal returns both ends of a new terminal: what is written to the second is read from the first.
func terminal(t *testing.T) (shown, end *os.File) {
	t.Helper()
	shown = testenv.Must(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { _ = shown.Close() })
	fd := int(shown.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		end, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end.Close() })
	return shown, end
}

// On a terminal, progress is gone when the report comes.
func TestSimulateOnTerminal(t *testing.T) {
	dir := rules(t, "a.yaml", oncePer, "envoy.yaml", byUser, "access.log", userLines)
	for _, output := range []string{"text", "json"} {
		t.Run(output, func(t *testing.T) {
			shown, end := terminal(t)
			simulate := func() *exec.Cmd {
				command := inProcess("simulate", "a.yaml", "access.log", "--envoy=envoy.yaml", "--output="+output)
				command.Dir = dir
				return command
			}
			want := testenv.Must(simulate().Output())(t)
			command := simulate()
			command.Stdout, command.Stderr = end, end
			testenv.OK(t, command.Start())
			_ = end.Close()
			data, _ := io.ReadAll(shown) // the error is that nobody writes any more
			testenv.OK(t, command.Wait())
			const clear = "\r\x1b[K"
			text := strings.ReplaceAll(string(data), "\r\n", "\n")
			at := strings.LastIndex(text, clear)
			if !strings.Contains(text, "2 lines"+clear) || text[at+len(clear):] != string(want) {
				t.Errorf("shown is %q, want %q after the progress", text, want)
			}
		})
	}
}
