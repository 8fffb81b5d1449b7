package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
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

// runOnTerminal runs the program on a terminal, and returns what it shows.
func runOnTerminal(t *testing.T, args ...string) string {
	t.Helper()
	shown, end := terminal(t)
	command := inProcess(args...)
	command.Stdout, command.Stderr = end, end
	testenv.OK(t, command.Start())
	_ = end.Close()
	data, _ := io.ReadAll(shown) // fails when the program has closed the other end
	testenv.OK(t, command.Wait())
	return strings.ReplaceAll(string(data), "\r\n", "\n")
}

// On a terminal, the progress is cleared before the report.
func TestSimulateOnTerminal(t *testing.T) {
	dir := rules(t, "a.yaml", oncePer, "envoy.yaml", byUser, "access.log", userLines)
	args := []string{"simulate", dir + "/a.yaml", dir + "/access.log", "--envoy=" + dir + "/envoy.yaml"}
	_, want, _ := call(t, args...)
	const clear = "\r\x1b[K"
	text := runOnTerminal(t, args...)
	at := strings.LastIndex(text, clear)
	if !strings.Contains(text, "2 lines, 100 %, 0s left"+clear) || text[at+len(clear):] != want {
		t.Errorf("shown is %q, want %q after the progress", text, want)
	}
	stdin := inProcess(append(args[:2:2], "-", args[3])...) // the size of a pipe is unknown
	shown, end := terminal(t)
	stdin.Stdin, stdin.Stderr = strings.NewReader(userLines), end
	testenv.OK(t, stdin.Run())
	_ = end.Close()
	data, _ := io.ReadAll(shown)
	testenv.Equal(t, string(data), clear+"2 lines"+clear, "shown")
	addr := oracle{}.start(t)
	if got := runOnTerminal(t, "bench", addr, "--duration=300ms"); !regexp.MustCompile(`\x1b\[K\d+ answers, 100 %, 0s left\r\x1b\[Ktarget +` + addr).MatchString(got) {
		t.Errorf("shown is %q", got)
	}
}

// On a terminal, top has bars and colours, unless NO_COLOR is set, and cuts long names. Elsewhere it
// has neither, and cuts nothing. With --watch, it clears the terminal for each answer.
func TestTopOnTerminal(t *testing.T) {
	answer := testenv.Read(t, "testdata/remote/denials.json")
	server := answering(t, http.StatusOK, answer)
	args := []string{"top", "--server=" + server.URL}
	_, piped, _ := call(t, args...)
	shown := runOnTerminal(t, args...)
	plain := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(shown, "")
	t.Setenv("NO_COLOR", "1")
	if got := runOnTerminal(t, args...); got != plain || plain == shown || strings.ContainsAny(piped, "█\x1b") {
		t.Errorf("with NO_COLOR\n%s\nwithout\n%s\nelsewhere\n%s", got, shown, piped)
	}
	testenv.Contains(t, shown, "\x1b[1m    DENIED ", " \x1b[31m██████████\x1b[0m  ", " \x1b[31m█\x1b[0m  ")

	end, other := terminal(t)
	command := inProcess(append(args, "--watch")...)
	command.Stdout = other
	testenv.OK(t, command.Start())
	_ = other.Close()
	seen := new(testenv.Log)
	go func() { _, _ = io.Copy(seen, end) }()
	testenv.Until(t, "it is shown three times", func() bool { return strings.Count(seen.String(), "\x1b[H\x1b[2JDenied ") == 3 })
	testenv.OK(t, command.Process.Signal(os.Interrupt))
	if err := command.Wait(); err != nil || !strings.HasPrefix(seen.String(), "\x1b[H\x1b[2JDenied ") {
		t.Errorf("%v, %q", err, seen)
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
			testenv.Equal(t, strings.Count(stderr.String(), "no space"), 1, "times that it is told in\n%s", stderr.String())
		})
	}
}
