package server

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// tasks are goroutines that run until the server ends, each with a name.
type tasks struct {
	mu      sync.Mutex
	running map[string]int
	all     sync.WaitGroup
}

func newTasks() *tasks { return &tasks{running: map[string]int{}} }

// start runs task in a goroutine.
func (t *tasks) start(name string, task func()) {
	t.mu.Lock()
	t.running[name]++
	t.mu.Unlock()
	t.all.Go(func() {
		task()
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.running[name]--; t.running[name] == 0 {
			delete(t.running, name)
		}
	})
}

// wait waits until all have ended, but not for longer than that: a read of a file
// cannot be interrupted, and may last for ever. The error names who is left behind.
func (t *tasks) wait(longest time.Duration, logger *slog.Logger) error {
	ended := make(chan struct{})
	go func() {
		t.all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(longest):
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	names := strings.Join(slices.Sorted(maps.Keys(t.running)), ", ")
	if names == "" { // they have ended just now
		return nil
	}
	logger.Warn("something does not end and is left behind", "parts", names)
	return fmt.Errorf("left behind: %s: not ended %v after the drain", names, longest)
}
