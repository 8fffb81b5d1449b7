package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/testenv"
)

// terminal returns both ends of a new terminal. Data written to end is read from shown.
func terminal(t *testing.T) (shown, end *os.File) {
	t.Helper()
	shown = testenv.Must(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { _ = shown.Close() })
	fd := int(shown.Fd())
	n := testenv.Must(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	testenv.OK(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	end = testenv.Must(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { _ = end.Close() })
	return shown, end
}

// On a terminal, the progress is cleared before the report.
func TestSimulateOnTerminal(t *testing.T) {
	dir := rules(t, "a.yaml", oncePer, "envoy.yaml", byUser, "access.log", userLines)
	shown, end := terminal(t)
	args := []string{"simulate", dir + "/a.yaml", dir + "/access.log", "--envoy=" + dir + "/envoy.yaml"}
	_, want, _ := call(t, args...)
	command := inProcess(args...)
	command.Stdout, command.Stderr = end, end
	testenv.OK(t, command.Start())
	_ = end.Close()
	data, _ := io.ReadAll(shown) // fails when the program has closed the other end
	testenv.OK(t, command.Wait())
	const clear = "\r\x1b[K"
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	at := strings.LastIndex(text, clear)
	if !strings.Contains(text, "2 lines"+clear) || text[at+len(clear):] != want {
		t.Errorf("shown is %q, want %q after the progress", text, want)
	}
}

// Every command that prints fails if its output cannot be printed.
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
