package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"weir/internal/regularfile"
)

// TokenSetting is the name of the setting with the path of the token.
const TokenSetting = "ADMIN_TOKEN_FILE"

// token is the token of the debug port, with those who bore it or tried to. It is that of
// a file, which is read anew while follow runs.
type token struct {
	path   string
	logger *slog.Logger

	mu       sync.Mutex
	digest   digest
	sessions sessions
	attempts attempts
	problem  string // of the file, "" if it is good
}

// outcome is what became of a token that was sent.
type outcome int

const (
	wrong outcome = iota
	right
	tooSoon // it was not looked at
)

// newToken reads the file.
func newToken(path string, logger *slog.Logger) (*token, error) {
	text, err := readToken(path)
	if err != nil {
		return nil, err
	}
	t := &token{path: path, logger: logger}
	t.use(sha256.Sum256([]byte(text)))
	return t, nil
}

// use replaces the token. Who was let in by the one before is so no longer.
func (t *token) use(d digest) {
	t.digest, t.sessions, t.attempts = d, sessions{}, attempts{}
}

// try returns what becomes of a token that comes from host. Over loopback, which many
// share who log in to the machine or use kubectl port-forward, the right token is let in
// at any time, so that none of them can keep the others out. Then wait is how long to wait
// before the next one.
func (t *token) try(host, text string, loopback bool, now time.Time) (what outcome, wait time.Duration) {
	sent := digest(sha256.Sum256([]byte(text)))
	t.mu.Lock()
	defer t.mu.Unlock()
	wait = t.attempts.wait(host, now)
	if wait > 0 && !loopback {
		return tooSoon, wait
	}
	if subtle.ConstantTimeCompare(sent[:], t.digest[:]) == 1 {
		return right, 0
	}
	if wait > 0 {
		return tooSoon, wait
	}
	if !t.attempts.knows(host, sent, now) {
		t.attempts.add(host, sent, now)
	}
	return wrong, 0
}

// begin returns a new session, unless text is the token no longer.
func (t *token) begin(text string, now time.Time) (session string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.digest != sha256.Sum256([]byte(text)) { // it was right just now
		return "", false
	}
	return t.sessions.begin(now), true
}

// end ends a session.
func (t *token) end(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions.end(session)
}

// holds reports whether a session goes on.
func (t *token) holds(session string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessions.hold(session, now)
}

// lookEvery is the time between two looks at the file.
const lookEvery = time.Second

// follow reads the file again and again until ctx ends.
func (t *token) follow(ctx context.Context) {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			t.look()
		}
	}
}

// look reads the file, and uses what it holds if that is a token.
func (t *token) look() {
	text, err := readToken(t.path)
	found := digest(sha256.Sum256([]byte(text)))
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if problem := err.Error(); t.problem != problem {
			t.problem = problem
			t.logger.Warn("the token file is bad, the token read before stays in use", "err", err)
		}
		return
	}
	if found != t.digest {
		t.use(found)
		t.logger.Info("a new token is in use on the debug port, all sessions have ended", "file", t.path)
	} else if t.problem != "" {
		t.logger.Info("the token file is good again", "file", t.path)
	}
	t.problem = ""
}

// state is what is wrong with the file, "" if nothing is.
func (t *token) state() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.problem
}

// How long a token may be, and its file.
const (
	shortestToken, longestToken = 16, 1024
	longestTokenFile            = 4096
)

// readToken returns the token in a file, without space around it. Its errors name the
// setting and the file, and hold nothing of the token.
func readToken(path string) (text string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", TokenSetting, err)
		}
	}()
	file, _, err := regularfile.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, longestTokenFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > longestTokenFile {
		return "", fmt.Errorf("%s has more than %d bytes, it holds a token of at most %d", path, longestTokenFile, longestToken)
	}
	text = strings.TrimSpace(string(data))
	if err := checkToken(text); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

func checkToken(text string) error {
	switch {
	case text == "":
		return errors.New("the file is empty, it must hold a token")
	case len(text) < shortestToken:
		return fmt.Errorf("the token has %d bytes, allowed are at least %d", len(text), shortestToken)
	case len(text) > longestToken:
		return fmt.Errorf("the token has %d bytes, allowed are at most %d", len(text), longestToken)
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' { // what a header may hold, and no space
			return fmt.Errorf("byte %d of the token is none of the visible characters of ASCII", i+1)
		}
	}
	return nil
}
