package redisstore

import (
	"log/slog"
	"sync"
	"time"
)

// lateness logs that Redis answers, but later than callers wait: at once, and then
// once a minute while it does.
type lateness struct {
	log *slog.Logger

	mu       sync.Mutex
	requests int         // answered too late, not told of
	next     *time.Timer // will tell of more; nil if none was told of for a minute
}

// observe notes a request that was answered too late.
func (l *lateness) observe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	if l.next == nil {
		l.warn()
	}
}

func (l *lateness) warn() {
	l.log.Warn("redis answers later than callers wait, failure modes decide", "kind", kindTimeout, "requests", l.requests)
	l.requests, l.next = 0, time.AfterFunc(reminder, l.catchUp)
}

// catchUp tells of what came too late meanwhile.
func (l *lateness) catchUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		return // closed
	}
	l.next = nil
	if l.requests > 0 {
		l.warn()
	}
}

// close ends the log. Nothing may be observed any more.
func (l *lateness) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != nil {
		l.next.Stop()
		l.next = nil
	}
}
