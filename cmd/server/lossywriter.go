package main

import (
	"io"
	"sync"
	"time"
)

// lossyWriter writes lines to another writer in the background, because requests
// write them: a pipe that nobody reads must hold none of them. It keeps lossyBytes of
// lines that are not written yet at most, and drops the next ones.
type lossyWriter struct {
	w     io.Writer
	tell  func(lost int) // writes to w how many lines were dropped
	wake  chan struct{}
	ended chan struct{} // closed when all is written, after close

	mu      sync.Mutex
	pending []byte
	lost    int
	closed  bool
}

const lossyBytes = 1 << 20

func newLossyWriter(w io.Writer, tell func(lost int)) *lossyWriter {
	l := &lossyWriter{w: w, tell: tell, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go l.run()
	return l
}

// Write implements io.Writer. It takes a line, waits for nobody and never fails.
func (l *lossyWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	if l.closed || len(l.pending)+len(line) > lossyBytes {
		l.lost++
	} else {
		l.pending = append(l.pending, line...)
	}
	l.mu.Unlock()
	l.awake()
	return len(line), nil
}

func (l *lossyWriter) awake() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

// run writes what is pending until l is closed.
func (l *lossyWriter) run() {
	defer close(l.ended)
	var written []byte
	for range l.wake {
		l.mu.Lock()
		lines, lost, closed := l.pending, l.lost, l.closed
		l.pending, l.lost = written[:0], 0
		l.mu.Unlock()
		_, _ = l.w.Write(lines) // nobody is left to hear that it fails
		if lost > 0 {
			l.tell(lost)
		}
		if closed {
			return
		}
		written = lines
	}
}

// close takes no more lines and waits until those before it are written, but no
// longer than patience.
func (l *lossyWriter) close(patience time.Duration) {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.awake()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-timer.C:
	}
}
