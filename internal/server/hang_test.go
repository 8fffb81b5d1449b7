package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"weir/internal/operators/api"
	"weir/internal/testenv"
)

// hanging is a source of rules whose run waits for a disk that never answers.
type hanging struct{ release chan struct{} }

func (h hanging) run(context.Context) { <-h.release }
func (h hanging) reload() error       { <-h.release; return nil }
func (h hanging) report() api.Rules   { return api.Rules{} }

// TestEndDoesNotWaitForWhatHangs ends a server whose reads never return.
func TestEndDoesNotWaitForWhatHangs(t *testing.T) {
	t.Parallel()
	app := testenv.Must(New(options(t, new(testenv.Log), "--config="+directory(t, limited(3)), "--drain-timeout=50ms", "--drain-delay=0s")))(t)
	source := hanging{make(chan struct{})}
	defer close(source.release)
	app.source = source
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "stopping rules: still running") {
			t.Errorf("Run returned %v", err)
		}
	case <-time.After(patience):
		t.Error("the server does not end")
	}
}
