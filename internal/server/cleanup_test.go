package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCleanupsRunBackwardsAndAll(t *testing.T) {
	var order []string
	var c cleanups
	for _, name := range []string{"store", "HTTP", "gRPC"} {
		c.add(name, func(context.Context) error {
			order = append(order, name)
			if name == "HTTP" {
				return errors.New("stuck client")
			}
			return nil
		})
	}
	err := c.run(t.Context(), slog.New(slog.DiscardHandler))
	if err == nil || err.Error() != "stopping HTTP: stuck client" {
		t.Errorf("error: %v", err)
	}
	if got := strings.Join(order, " "); got != "gRPC HTTP store" {
		t.Errorf("order: %s", got)
	}
}

func TestCleanupThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		stopped := false
		var c cleanups
		c.add("first", func(context.Context) error { stopped = true; return nil })
		c.add("hanging", func(context.Context) error { <-release; return nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := c.run(ctx, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "stopping hanging: not stopped") {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(start); took != time.Minute+grace {
			t.Errorf("took %v", took)
		}
		if !stopped {
			t.Error("the step after it was left out")
		}
	})
}
