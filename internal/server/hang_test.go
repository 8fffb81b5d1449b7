package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/descriptors"
	"weir/internal/operators/api"
	"weir/internal/settings"
	"weir/internal/testenv"
)

// hanging is a source of rules whose run waits for a disk that never answers.
type hanging struct{ release chan struct{} }

func (h hanging) start() error                 { return nil }
func (h hanging) run(context.Context)          { <-h.release }
func (h hanging) reload(context.Context) error { <-h.release; return nil }
func (h hanging) report() api.Rules            { return api.Rules{} }

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
		if err == nil || !strings.Contains(err.Error(), "left behind: rules: ") {
			t.Errorf("Run returned %v", err)
		}
	case <-time.After(patience):
		t.Error("the server does not end")
	}
}

// TestReloadsBecomeOne has many ask for a load at the same time, and one at the end.
func TestReloadsBecomeOne(t *testing.T) {
	dir := directory(t, limited(3))
	synctest.Test(t, func(t *testing.T) {
		r := newRules(descriptors.Options{}, func() {}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		f := newFiles(r, settings.Rules{RulesPath: settings.RulesPath{Config: dir}}, nil, time.Hour)
		const asking = 40
		answers := make(chan error, asking)
		for range asking {
			go func() { answers <- f.reload(t.Context()) }()
		}
		synctest.Wait()
		ctx, stop := context.WithCancel(t.Context())
		go f.run(ctx)
		for range asking {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if loads := testutil.ToFloat64(r.metrics.success); loads != 1 {
			t.Errorf("%v loads, want 1", loads)
		}
		stop()
		synctest.Wait()
		if err := f.reload(t.Context()); !errors.Is(err, errEnded) {
			t.Errorf("at the end: got %v", err)
		}
	})
}

// TestLoadEndsWithItsContext ends a load while it rests.
func TestLoadEndsWithItsContext(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: api\ndescriptors:\n")
	for range 10_000 {
		text.WriteString("- key: user\n")
	}
	ctx, cancel := context.WithCancel(t.Context())
	pauses := 0
	_, err := descriptors.Load([]descriptors.File{{Name: "a", Data: []byte(text.String())}}, descriptors.Options{
		Context: ctx,
		Pause: func() {
			if pauses++; pauses == 2 { // of a dozen
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %.200v, want that of the context", err)
	}
	if pauses > 3 {
		t.Errorf("the load went on for %d pauses", pauses-2)
	}
}
