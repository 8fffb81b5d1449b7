package admin

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// attempts are the wrong tokens of each address, which has to wait longer after each. To
// wait costs the server nothing: a token that comes too soon is refused.
type attempts map[string]*failures

// failures are the wrong tokens of an address.
type failures struct {
	n           int
	last, until time.Time          // the last one, and when the next is looked at
	tokens      [mostTokens]uint64 // the last of them; a client that goes on with an old token does not keep others out
}

const (
	// A few wrong tokens are forgiven, then each wait is twice as long as the last one.
	forgiven               = 3
	firstWait, longestWait = time.Second, 10 * time.Second
	// forgetAfter is how long after its last wrong token an address is as good as new.
	forgetAfter = 10 * time.Minute
	// mostAddresses bounds the addresses that are remembered, mostTokens the tokens of each.
	mostAddresses, mostTokens = 1024, 8
)

// wait returns for how long no token of host is looked at.
func (a attempts) wait(host string, now time.Time) time.Duration {
	f := a[host]
	if f == nil {
		return 0
	}
	return max(0, f.until.Sub(now))
}

// knows reports whether host has sent this wrong token lately.
func (a attempts) knows(host string, token digest, now time.Time) bool {
	f := a[host]
	if f == nil || now.Sub(f.last) > forgetAfter {
		return false
	}
	for i := range min(f.n, mostTokens) {
		if f.tokens[i] == token.short() {
			return true
		}
	}
	return false
}

// add notes a wrong token.
func (a attempts) add(host string, token digest, now time.Time) {
	f := a[host]
	if f == nil {
		if len(a) >= mostAddresses {
			delete(a, a.oldest())
		}
		f = new(failures)
		a[host] = f
	} else if now.Sub(f.last) > forgetAfter {
		*f = failures{}
	}
	f.tokens[f.n%mostTokens] = token.short()
	f.n++
	f.last = now
	if over := f.n - forgiven; over > 0 {
		f.until = now.Add(min(firstWait<<min(over-1, 10), longestWait))
	}
}

// oldest is the address whose last wrong token was first.
func (a attempts) oldest() (oldest string) {
	var last time.Time
	for host, f := range a {
		if last.IsZero() || f.last.Before(last) {
			oldest, last = host, f.last
		}
	}
	return oldest
}

// digest stands for a token. All have the same length, so to compare them takes the same
// time, whatever the token.
type digest [sha256.Size]byte

func (d digest) short() uint64 { return binary.BigEndian.Uint64(d[:]) }
