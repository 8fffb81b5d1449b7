package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestComponentsStopBackwards has a component that fails, and one that hangs as if a disk did not
// answer.
func TestComponentsStopBackwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		var order []string
		var l lifecycle
		stop := func(name string, err error) func(context.Context) error {
			return func(context.Context) error { order = append(order, name); return err }
		}
		l.add(&component{name: "store", stop: stop("store", nil)})
		l.add(&component{name: "rules", run: func(context.Context) error { <-release; return nil }, stop: stop("rules", nil)})
		l.add(&component{name: "HTTP", stop: stop("HTTP", errors.New("stuck client"))})
		l.add(&component{name: "gRPC", stop: stop("gRPC", nil)})
		l.start()
		start := time.Now()
		err := l.stop(time.Minute)
		if err == nil || err.Error() != "stopping HTTP: stuck client\nstopping rules: still running 1s after its time was up" {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(start); took != time.Minute+grace || strings.Join(order, " ") != "gRPC HTTP rules store" {
			t.Errorf("took %v; order: %s", took, order)
		}
	})
}
