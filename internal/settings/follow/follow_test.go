package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"weir/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// follow opens what File reads, on a clock of its own.
func follow(t *testing.T, path string, log *testenv.Log) *Text {
	t.Helper()
	s := testenv.Must(Open(t.Context(), Options{
		Setting: "SETTING",
		Read:    func(context.Context) (string, error) { return File(path) },
		Every:   time.Second,
		Check: func(text string) error {
			if text == "refused" {
				return errors.New("it is refused")
			}
			return nil
		},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}))(t)
	s.Start()
	return s
}

func TestChangesAndProblemsAreLoggedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write := func(text string) { t.Helper(); testenv.OK(t, os.WriteFile(path, []byte(text), 0o600)) }
	write("one\n")
	const changed, bad, again = "a secret has changed", "a changed secret cannot be used; the previous one stays in use", "a secret can be used again"
	synctest.Test(t, func(t *testing.T) {
		log := new(testenv.Log)
		s := follow(t, path, log)
		defer s.Close()
		for _, step := range []struct {
			change     func()
			text, line string
			times      int
		}{
			{func() {}, "one", changed, 0},
			{func() { write("  two\r\n\n") }, "two", changed, 1},
			{func() { write(" \n") }, "two", bad, 1},
			{func() { testenv.OK(t, os.Remove(path)) }, "two", bad, 2},
			{func() { testenv.OK(t, os.Mkdir(path, 0o700)) }, "two", bad, 3},
			{func() { testenv.OK(t, os.Remove(path)); write("two") }, "two", again, 1},
			{func() { write("refused") }, "two", bad, 4},
			{func() { write("three") }, "three", changed, 2},
		} {
			step.change()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := s.Text(); got != step.text || strings.Count(log.String(), step.line) != step.times {
				t.Errorf("got %q, want %q, and %q %d times in\n%s", got, step.text, step.line, step.times, log)
			}
		}
		for _, secret := range []string{"one", "two", "three"} {
			if strings.Contains(strings.ReplaceAll(log.String(), "the previous one", ""), secret) {
				t.Errorf("the log holds a secret:\n%s", log)
			}
		}
	})
}

// TestRenewWaitsForItsCaller has a reading that takes longer than its caller waits, and rests
// after it.
func TestRenewWaitsForItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings := 0
		s := testenv.Must(Open(t.Context(), Options{Every: time.Hour, RenewEvery: 5 * time.Second, Logger: slog.New(slog.DiscardHandler), Read: func(ctx context.Context) (string, error) {
			if readings++; readings > 1 {
				<-time.After(time.Second) //nolint:forbidigo // on the clock of the test
			}
			return strings.Repeat("x", readings), nil
		}}))(t)
		s.Start()
		defer s.Close()
		for _, step := range []struct {
			at, wait time.Duration
			want     string
		}{
			{0, 10 * time.Millisecond, "x"},                     // the reading goes on
			{500 * time.Millisecond, time.Second, "xx"},         // it is waited for
			{2 * time.Second, time.Minute, "xx"},                // too soon
			{10 * time.Second, 2 * time.Second, "xxx"},          // another
			{15100 * time.Millisecond, 2 * time.Second, "xxxx"}, // and another
		} {
			synctest.Wait()
			time.Sleep(step.at - time.Since(begun(t, s)))
			ctx, cancel := context.WithTimeout(t.Context(), step.wait)
			s.Renew(ctx)
			cancel()
			if got := s.Text(); got != step.want {
				t.Errorf("at %v: got %q, want %q", step.at, got, step.want)
			}
		}
	})
}

// begun is when the clock of a test of synctest begins.
func begun(*testing.T, *Text) time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func TestFile(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want, problem string }{
		"good":   {" swordfish \n", "swordfish", ""},
		"blanks": {"u:sword fish", "u:sword fish", ""},
		"empty":  {"\n", "", "it is empty"},
		"lines":  {"swordfish\nhalibut", "", "it has several lines or is not UTF-8"},
		"bytes":  {"swordfish\xff", "", "it has several lines or is not UTF-8"},
		"zero":   {"swordfish\x00", "", "it has several lines or is not UTF-8"},
		"long":   {strings.Repeat("swordfish", 10_000), "", "it is longer than 65536 bytes"},
	} {
		path := filepath.Join(dir, name)
		testenv.OK(t, os.WriteFile(path, []byte(c.text), 0o600))
		wantText(t, name, c.want, path, c.problem)(File(path))
	}
	wantText(t, "none", "", "", "no such file")(File(filepath.Join(dir, "none")))
	wantText(t, "a directory", "", "", "not a regular file")(File(dir))
}

func wantText(t *testing.T, name, want, named, problem string) func(string, error) {
	return func(got string, err error) {
		t.Helper()
		if got != want || (err == nil) != (problem == "") {
			t.Errorf("%s: got %q, error %v, want %q", name, got, err, want)
		}
		if err != nil && (!strings.Contains(err.Error(), problem) || !strings.Contains(err.Error(), named) || strings.Contains(err.Error(), "swordfish")) {
			t.Errorf("%s: got error %v, want %s", name, err, problem)
		}
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		testenv.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
		return path
	}
	for name, c := range map[string]struct {
		words         []string
		want, problem string
	}{
		"good":          {[]string{"echo", "u:swordfish"}, "u:swordfish", ""},
		"no shell":      {[]string{"echo", "$HOME;", "`ls`"}, "$HOME; `ls`", ""},
		"nothing":       {[]string{"true"}, "", "output of the command: it is empty"},
		"fails":         {[]string{script("fails", "echo swordfish; echo swordfish >&2; exit 3")}, "", "the command failed: exit status 3"},
		"is not there":  {[]string{"swordfish"}, "", "cannot run the command: executable file not found in $PATH"},
		"no such path":  {[]string{"/swordfish"}, "", "cannot run the command: no such file or directory"},
		"prints a lot":  {[]string{"head", "-c", "10000000", "/dev/zero"}, "", "it is longer than 65536 bytes"},
		"leaves a part": {[]string{script("leaves", "sleep 5 & echo swordfish")}, "", "cannot run the command: exec: WaitDelay expired before I/O complete"},
	} {
		wantText(t, name, c.want, "", c.problem)(Command(t.Context(), c.words))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantText(t, "takes long", "", "", "the command did not finish within")(Command(ctx, []string{"sleep", "60"}))
}

// TestCommandLeavesNoProcess has a script start a process in the background. Each holds a pipe
// open, which ends when none of them is left.
func TestCommandLeavesNoProcess(t *testing.T) {
	for name, c := range map[string]struct {
		last   string // line of the script
		limit  time.Duration
		closes bool
	}{
		"timeout":          {"sleep 60", 2 * time.Second, false},
		"close":            {"sleep 60", time.Minute, true},
		"output held open": {"echo swordfish", time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script, path := filepath.Join(dir, "script"), filepath.Join(dir, "pipe")
			testenv.OK(t, os.WriteFile(script, fmt.Appendf(nil, "exec 3>%s\nsleep 60 &\necho begun >&3\n%s\n", path, c.last), 0o600))
			testenv.OK(t, syscall.Mkfifo(path, 0o600))
			first := testenv.Must(os.OpenFile(path, os.O_RDWR, 0))(t) // so that the next does not wait
			pipe := testenv.Must(os.Open(path))(t)
			defer pipe.Close()
			testenv.OK(t, pipe.SetReadDeadline(time.Now().Add(30*time.Second)))

			readings := 0
			s := testenv.Must(Open(t.Context(), Options{Every: time.Hour, Logger: slog.New(slog.DiscardHandler), Read: func(ctx context.Context) (string, error) {
				if readings++; readings == 1 {
					return "x", nil
				}
				ctx, cancel := context.WithTimeout(ctx, c.limit)
				defer cancel()
				return Command(ctx, []string{"sh", script})
			}}))(t)
			s.Start()
			defer s.Close()
			reading := make(chan struct{})
			go func() { defer close(reading); s.Renew(t.Context()) }()
			testenv.Must(io.ReadFull(pipe, make([]byte, len("begun\n"))))(t)
			first.Close()
			if c.closes {
				s.Close()
			}
			<-reading
			if _, err := io.ReadAll(pipe); err != nil {
				t.Errorf("a process is left: %v", err)
			}
		})
	}
}

// A connection may still be made while the server ends.
func TestRenewAfterClose(t *testing.T) {
	s := testenv.Must(Open(t.Context(), Options{
		Setting: "X", Read: func(context.Context) (string, error) { return "x", nil }, Every: time.Hour, Logger: slog.New(slog.DiscardHandler),
	}))(t)
	s.Start()
	var renewing sync.WaitGroup
	for range 8 {
		renewing.Go(func() {
			for range 100 {
				s.Renew(t.Context())
			}
		})
	}
	s.Close()
	renewing.Wait()
	s.Renew(t.Context()) // returns
}
