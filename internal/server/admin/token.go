package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/internal/settings/follow"
)

// TokenSetting is the name of the setting with the path of the token.
const TokenSetting = "ADMIN_TOKEN_FILE"

// token is the token of the debug port, with those who bore it or tried to.
type token struct {
	file *follow.Text

	mu       sync.Mutex
	digest   digest // of the token that sessions and attempts are of
	sessions sessions
	attempts attempts
}

// outcome is what became of a token that was sent.
type outcome int

const (
	wrong outcome = iota
	right
	tooSoon // it was not looked at
)

// lookEvery is the time between two looks at the file.
const lookEvery = time.Second

// newToken reads the file. Its errors name the setting and the file.
func newToken(path string, logger *slog.Logger) (*token, error) {
	file, err := follow.Open(context.Background(), follow.Options{
		Setting: TokenSetting,
		Read:    func(context.Context) (string, error) { return readToken(path) },
		Every:   lookEvery,
		Logger:  logger,
	})
	if err != nil {
		return nil, err
	}
	return &token{file: file}, nil
}

// lock locks t. Who was let in by a token before that of the file is so no longer.
func (t *token) lock() {
	t.mu.Lock()
	if d := digest(sha256.Sum256([]byte(t.file.Text()))); d != t.digest {
		t.digest, t.sessions, t.attempts = d, sessions{}, attempts{}
	}
}

// try returns what becomes of a token that comes from host. Over loopback, which many
// share who log in to the machine or use kubectl port-forward, the right token is let in
// at any time, so that none of them can keep the others out. Then wait is how long to wait
// before the next one.
func (t *token) try(host, text string, loopback bool, now time.Time) (what outcome, wait time.Duration) {
	sent := digest(sha256.Sum256([]byte(text)))
	t.lock()
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
	t.lock()
	defer t.mu.Unlock()
	if t.digest != sha256.Sum256([]byte(text)) { // it was right just now
		return "", false
	}
	return t.sessions.begin(now), true
}

// end ends a session.
func (t *token) end(session string) {
	t.lock()
	defer t.mu.Unlock()
	t.sessions.end(session)
}

// holds reports whether a session goes on.
func (t *token) holds(session string, now time.Time) bool {
	t.lock()
	defer t.mu.Unlock()
	return t.sessions.hold(session, now)
}

// How long a token may be, in bytes.
const shortestToken, longestToken = 16, 1024

// readToken returns the token in a file, without white space around it. Its errors name
// the file, and hold nothing of the token.
func readToken(path string) (string, error) {
	text, err := follow.File(path)
	if err != nil {
		return "", err
	}
	if err := checkToken(text); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

func checkToken(text string) error {
	switch {
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
