package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPartsStopBackwardsAndAll(t *testing.T) {
	var order []string
	var p parts
	for _, name := range []string{"store", "HTTP", "gRPC"} {
		p.add(name, nil, func(context.Context) error {
			order = append(order, name)
			if name == "HTTP" {
				return errors.New("stuck client")
			}
			return nil
		})
	}
	err := p.stop(t.Context())
	if err == nil || err.Error() != "stopping HTTP: stuck client" {
		t.Errorf("error: %v", err)
	}
	if got := strings.Join(order, " "); got != "gRPC HTTP store" {
		t.Errorf("order: %s", got)
	}
}

// TestPartThatHangsIsLeftBehind has a part that reads from a disk that never answers.
func TestPartThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		stopped := false
		var p parts
		p.closer("first", func() { stopped = true })
		p.background("hanging", func(context.Context) { <-release })
		p.start(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := p.stop(ctx)
		if err == nil || !strings.Contains(err.Error(), "stopping hanging: still running") {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(start); took != time.Minute+grace || !stopped {
			t.Errorf("took %v; the part before it is stopped: %t", took, stopped)
		}
	})
}
