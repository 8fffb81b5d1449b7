package follow

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"weir/internal/testenv"
)

func TestMain(m *testing.M) {
	tlsEvery = 5 * time.Millisecond
	goleak.VerifyTestMain(m)
}

// follow opens a Text of the file at path.
func follow(t *testing.T, path string, log *testenv.Log) *Text {
	t.Helper()
	return testenv.Must(Open(t.Context(), Options{
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
}

func TestChangesAndProblemsAreLoggedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write := func(text string) { t.Helper(); testenv.OK(t, os.WriteFile(path, []byte(text), 0o600)) }
	write("one\n")
	const changed, bad = "a changed setting is in use", "a changed setting cannot be used; the previous value stays in use"
	synctest.Test(t, func(t *testing.T) {
		log := new(testenv.Log)
		s := follow(t, path, log)
		defer testenv.Running(s.Run)()
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
			{func() { testenv.OK(t, os.Remove(path)); write("two") }, "two", changed, 2},
			{func() { write("refused") }, "two", bad, 4},
			{func() { write("three") }, "three", changed, 3},
		} {
			step.change()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := s.Text(); got != step.text || strings.Count(log.String(), step.line) != step.times {
				t.Errorf("got %q, want %q, and %q %d times in\n%s", got, step.text, step.line, step.times, log)
			}
		}
		for _, secret := range []string{"one", "two", "three"} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log holds a secret:\n%s", log)
			}
		}
	})
}

// TestRenewWaitsForItsCaller calls Renew with a short and a long wait, and before and after
// RenewEvery.
func TestRenewWaitsForItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings := 0
		s := testenv.Must(Open(t.Context(), Options{Every: time.Hour, RenewEvery: 5 * time.Second, Logger: slog.New(slog.DiscardHandler), Read: func(ctx context.Context) (string, error) {
			if readings++; readings > 1 {
				<-time.After(time.Second) //nolint:forbidigo // on the clock of the bubble
			}
			return strings.Repeat("x", readings), nil
		}}))(t)
		stop := testenv.Running(s.Run)
		begun := time.Now()
		for _, step := range []struct {
			at, wait time.Duration
			want     string
		}{
			{0, 10 * time.Millisecond, "x"},                     // the reading takes longer
			{500 * time.Millisecond, time.Second, "xx"},         // waits for the same reading
			{2 * time.Second, time.Minute, "xx"},                // too soon for another reading
			{10 * time.Second, 2 * time.Second, "xxx"},          // a third reading
			{16100 * time.Millisecond, 2 * time.Second, "xxxx"}, // a fourth reading
		} {
			synctest.Wait()
			time.Sleep(step.at - time.Since(begun))
			ctx, cancel := context.WithTimeout(t.Context(), step.wait)
			s.Renew(ctx)
			cancel()
			testenv.Equal(t, s.Text(), step.want, "at %v", step.at)
		}
		stop()
		s.Renew(t.Context()) // new connections may call it while the server stops
	})
}

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
	link, pipe, large := filepath.Join(dir, "link"), filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	testenv.OK(t, errors.Join(os.Symlink("good", link), syscall.Mkfifo(pipe, 0o600), os.WriteFile(large, nil, 0o600), os.Truncate(large, maxPEM+1)))
	wantText(t, "link", "swordfish", "", "")(File(link))
	for path, problem := range map[string]string{
		dir + "/none": "no such file", dir: "not a regular file", pipe: "not a regular file", "/dev/zero": "not a regular file", large: "it is longer than 16777216 bytes",
	} {
		text, err := read(path, maxPEM)
		wantText(t, path, "", path, problem)(string(text), err)
	}
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
