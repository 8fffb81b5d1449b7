package admin

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

const goodToken = "correct-horse-battery-staple"

func writeToken(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTokenFiles reads good files and bad ones. No error holds what is in them.
func TestTokenFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	for _, tt := range []struct{ text, want, problem string }{
		{goodToken, goodToken, ""},
		{" \t" + goodToken + "\r\n", goodToken, ""},
		{"0123456789abcdef", "0123456789abcdef", ""},
		{strings.Repeat("x", 1024), strings.Repeat("x", 1024), ""},
		{"", "", "it is empty"},
		{"\n\n", "", "it is empty"},
		{"0123456789abcde", "", "the token has 15 bytes, allowed are at least 16"},
		{"0123456789abcdef\n0123456789abcdef", "", "it is more than one line"},
		{"\xef\xbb\xbf" + goodToken, "", "byte 1 of the token is none of the visible"},
		{strings.Repeat("x", 1025), "", "the token has 1025 bytes, allowed are at most 1024"},
		{strings.Repeat(" ", 70_000), "", "it is longer than 65536 bytes"},
	} {
		writeToken(t, path, tt.text)
		text, err := readToken(path)
		if text != tt.want {
			t.Errorf("%.30q: got %.30q, want %.30q", tt.text, text, tt.want)
		}
		switch {
		case tt.problem == "" && err != nil:
			t.Errorf("%.30q: %v", tt.text, err)
		case tt.problem == "":
		case err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), tt.problem):
			t.Errorf("%.30q: got error %v, want %q", tt.text, err, tt.problem)
		case strings.TrimSpace(tt.text) != "" && strings.Contains(err.Error(), "0123456789"):
			t.Errorf("the error holds the token: %v", err)
		}
	}
	for _, path := range []string{filepath.Join(dir, "none"), dir, "/dev/null"} {
		if _, err := readToken(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got error %v", path, err)
		}
	}
}

// TestTokenIsFollowed changes the file as Kubernetes changes a Secret, and makes it bad
// and good again.
func TestTokenIsFollowed(t *testing.T) {
	dir := t.TempDir()
	secret := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
			t.Fatal(err)
		}
		writeToken(t, filepath.Join(dir, version, "token"), text)
		link := filepath.Join(dir, version+".link")
		if err := os.Symlink(version, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	secret("..1", goodToken)
	path := filepath.Join(dir, "token")
	if err := os.Symlink("..data/token", path); err != nil {
		t.Fatal(err)
	}
	log := new(testenv.Log)
	token, err := newToken(path, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	session, _ := token.begin(goodToken, now)
	wantTokens := func(good, bad string) {
		t.Helper()
		for text, want := range map[string]outcome{good: right, bad: wrong} {
			if got, _ := token.try("host of "+good, text, false, now); got != want {
				t.Errorf("%s: got %d, want %d", text, got, want)
			}
		}
	}
	const newToken = "another-horse-battery-staple"
	wantTokens(goodToken, newToken)
	if !token.holds(session, now) {
		t.Error("the session does not hold")
	}

	secret("..2", "short")
	token.file.Renew(t.Context())
	token.file.Renew(t.Context())
	log.WaitFor(t, "a secret cannot be read anew, the one read before stays in use")
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("a bad file makes %d lines of log, want 1:\n%s", n, log)
	}
	if !strings.Contains(token.file.Problem(), "allowed are at least 16") || !token.holds(session, now) {
		t.Errorf("the problem is %q, or the session has ended", token.file.Problem())
	}
	wantTokens(goodToken, newToken)

	secret("..3", goodToken)
	token.file.Renew(t.Context())
	log.WaitFor(t, "a secret can be read again")
	if token.file.Problem() != "" || !token.holds(session, now) {
		t.Errorf("the problem is %q, or the session has ended", token.file.Problem())
	}
	for i := range 2 * forgiven { // a new token is new for who sent wrong ones, too
		token.try("impatient", fmt.Sprint("wrong", i), false, now)
	}
	if what, wait := token.try("impatient", goodToken, false, now); what != tooSoon || wait <= 0 {
		t.Errorf("after many wrong tokens: got %d, wait %v", what, wait)
	}

	secret("..4", newToken)
	token.file.Renew(t.Context())
	log.WaitFor(t, "a secret has changed")
	wantTokens(newToken, goodToken)
	if what, _ := token.try("impatient", newToken, false, now); what != right {
		t.Errorf("the new token is not let in: %d", what)
	}
	if _, ok := token.begin(goodToken, now); ok || token.holds(session, now) {
		t.Error("a session of the old token holds, or begins")
	}
	if strings.Contains(log.String(), "horse") {
		t.Errorf("the log holds the token:\n%s", log)
	}
}

// TestLoopbackIsNotKeptOut sends wrong tokens over loopback, and the right one.
func TestLoopbackIsNotKeptOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, goodToken)
	token, err := newToken(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	const old = "an-old-token-of-a-cron-job"
	for range 100 { // an old token of a client that goes on is one wrong token
		if what, _ := token.try("job", old, false, now); what != wrong {
			t.Fatalf("the old token: got %d", what)
		}
	}
	if what, _ := token.try("job", goodToken, false, now); what != right {
		t.Errorf("the right token beside an old one: got %d", what)
	}
	for i := range 100 {
		token.try("127.0.0.1", fmt.Sprint("wrong", i), true, now)
		token.try("192.0.2.1", fmt.Sprint("wrong", i), false, now)
	}
	for _, tt := range []struct {
		host, text string
		loopback   bool
		want       outcome
	}{
		{"127.0.0.1", goodToken, true, right}, {"127.0.0.1", "wrong", true, tooSoon},
		{"192.0.2.1", goodToken, false, tooSoon}, {"192.0.2.1", "wrong", false, tooSoon}, {"192.0.2.2", goodToken, false, right},
	} {
		if got, _ := token.try(tt.host, tt.text, tt.loopback, now); got != tt.want {
			t.Errorf("%s, %s: got %d, want %d", tt.host, tt.text, got, tt.want)
		}
	}
	if got, _ := token.try("192.0.2.1", goodToken, false, now.Add(longestWait)); got != right {
		t.Errorf("after the longest wait: got %d, want the right token to be let in", got)
	}
}
