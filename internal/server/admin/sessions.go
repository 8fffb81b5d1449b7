package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"
)

// sessions are those of the console, by the digest of their names, and when they end. The
// names are with the browsers alone.
type sessions map[digest]time.Time

const (
	sessionTime  = 12 * time.Hour
	mostSessions = 100
	sessionBytes = 32 // that are random
)

// begin returns the name of a new session. If there are too many, the one that would end
// first ends now.
func (s sessions) begin(now time.Time) string {
	random := make([]byte, sessionBytes)
	_, _ = rand.Read(random) // it never fails
	name := base64.RawURLEncoding.EncodeToString(random)
	for len(s) >= mostSessions {
		var first digest
		for name, until := range s {
			if end, ok := s[first]; !ok || until.Before(end) {
				first = name
			}
		}
		delete(s, first)
	}
	s[sha256.Sum256([]byte(name))] = now.Add(sessionTime)
	return name
}

// hold reports whether there is a session of that name.
func (s sessions) hold(name string, now time.Time) bool {
	return now.Before(s[sha256.Sum256([]byte(name))])
}

func (s sessions) end(name string) { delete(s, sha256.Sum256([]byte(name))) }
