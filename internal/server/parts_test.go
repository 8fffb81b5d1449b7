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

func TestPartThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		stopped := false
		var p parts
		p.add("first", nil, func(context.Context) error { stopped = true; return nil })
		p.add("hanging", nil, func(context.Context) error { <-release; return nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := p.stop(ctx)
		if err == nil || !strings.Contains(err.Error(), "stopping hanging: still running") {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(start); took != time.Minute+grace {
			t.Errorf("took %v", took)
		}
		if !stopped {
			t.Error("the part before it is not stopped")
		}
	})
}
