package admin

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"
)

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

// TestAttempts sends one wrong token after the other.
func TestAttempts(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	a := attempts{}
	for i, want := range []time.Duration{0, 0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
		a.add("here", digestOf(fmt.Sprint(i)), at)
		if got := a.wait("here", at); got != want {
			t.Errorf("after %d wrong tokens: wait %v, want %v", i+1, got, want)
		}
		if got := a.wait("there", at); got != 0 {
			t.Errorf("another address waits %v", got)
		}
	}
	if a.knows("here", digestOf("0"), at) || !a.knows("here", digestOf("1"), at) || !a.knows("here", digestOf("8"), at) || a.knows("there", digestOf("8"), at) {
		t.Error("other than the last eight tokens of the address are known")
	}
	later := at.Add(forgetAfter + time.Second)
	if a.knows("here", digestOf("8"), later) {
		t.Error("a token is known for longer than its address is remembered")
	}
	a.add("here", digestOf("9"), later)
	if got := a.wait("here", later); got != 0 || a.knows("here", digestOf("8"), later) {
		t.Errorf("the address is not as good as new, it waits %v", got)
	}
	for i := range 10_000 {
		a.add("here", digestOf(fmt.Sprint(i)), later)
	}
	if got := a.wait("here", later); got != longestWait {
		t.Errorf("after 10,000 wrong tokens: wait %v, want %v", got, longestWait)
	}
}

// TestAttemptsAreBounded has many addresses send wrong tokens.
func TestAttemptsAreBounded(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	a := attempts{}
	for i := range 3 * mostAddresses {
		a.add(fmt.Sprint(i), digestOf("wrong"), at.Add(time.Duration(i)*time.Millisecond))
	}
	if len(a) != mostAddresses || a[fmt.Sprint(3*mostAddresses-1)] == nil || a["0"] != nil {
		t.Errorf("%d addresses are remembered, want the last %d", len(a), mostAddresses)
	}
}

// TestSessions begins more than there may be.
func TestSessions(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	s := sessions{}
	var names []string
	for i := range mostSessions + 1 {
		names = append(names, s.begin(at.Add(time.Duration(i)*time.Second)))
	}
	now := at.Add(time.Hour)
	if len(s) != mostSessions || s.hold(names[0], now) || !s.hold(names[1], now) || !s.hold(names[mostSessions], now) {
		t.Errorf("%d sessions are there, want all but the first", len(s))
	}
	if s.hold(names[1], at.Add(sessionTime+time.Second)) || !s.hold(names[2], at.Add(sessionTime+time.Second)) {
		t.Error("a session does not end after 12 hours, or too soon")
	}
	s.end(names[2])
	if s.hold(names[2], now) || s.hold("", now) || s.hold(names[1][:10], now) {
		t.Error("an ended session, or one that never was, holds")
	}
	if len(names[0]) != 43 { // 256 bits in base64
		t.Errorf("the name %q has %d bytes", names[0], len(names[0]))
	}
}
