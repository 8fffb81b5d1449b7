package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPartsStopBackwardsAndAll has one part that fails, and one that reads from a disk that
// never answers.
func TestPartsStopBackwardsAndAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		var order []string
		var p parts
		stop := func(name string, err error) func(context.Context) error {
			return func(context.Context) error { order = append(order, name); return err }
		}
		p.add("store", nil, stop("store", nil))
		p.add("rules", func(context.Context) error { <-release; return nil }, stop("rules", nil))
		p.add("HTTP", nil, stop("HTTP", errors.New("stuck client")))
		p.add("gRPC", nil, stop("gRPC", nil))
		p.start(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := p.stop(ctx)
		if err == nil || err.Error() != "stopping HTTP: stuck client\nstopping rules: still running 1s after its time was up" {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(start); took != time.Minute+grace || strings.Join(order, " ") != "gRPC HTTP rules store" {
			t.Errorf("took %v; order: %s", took, order)
		}
	})
}
