package server

import (
	"iter"
	"runtime"
	"sync"
	"time"
)

// A load of many rules can keep a processor busy for seconds, while requests and
// other programs need it: what arrives would wait for milliseconds. While rules
// serve, a load therefore rests after each stretch of work, so that it takes a
// share of all processors and never one for long.
const (
	stretch     = 250 * time.Microsecond
	share       = 8                     // one part in so many
	longestRest = 10 * time.Millisecond // should the system itself have interrupted the work
)

// rests returns a function for who works to call often, on a machine of so many
// processors. It rests once a stretch was worked since it last did.
func rests(processors int) func() {
	since := time.Now()
	return func() {
		if worked := time.Since(since); worked >= stretch {
			rest := worked * time.Duration(share-processors) / time.Duration(processors)
			time.Sleep(min(rest, longestRest)) //nolint:forbidigo // there is nothing to wait for
			since = time.Now()
		}
	}
}

// turns let several rest as one, so that all of them together take the share of one.
type turns struct {
	mu    sync.Mutex
	pause func()
}

func (t *turns) rest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pause == nil {
		t.pause = rests(runtime.GOMAXPROCS(0))
	}
	t.pause()
}

// resting yields what all does, and rests in between.
func resting[T any](all iter.Seq[T], rest func()) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range all {
			rest()
			if !yield(v) {
				return
			}
		}
	}
}
