package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/descriptors"
	"weir/internal/operators/api"
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
	app, err := New(options(t, new(testenv.Log), "--config="+directory(t, limited(3)), "--drain-timeout=50ms", "--drain-delay=0s"))
	if err != nil {
		t.Fatal(err)
	}
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

// TestReloadsBecomeOne asks for many while one goes on.
func TestReloadsBecomeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds()
		answers := make(chan error, 41)
		ask := func() { answers <- r.wait(t.Context()) }
		loads := 0
		go ask()
		<-r.asked
		r.serve(func() error {
			loads++
			for range 40 {
				go ask()
			}
			synctest.Wait() // they come while this load goes on, and may want a later one
			return nil
		})
		<-r.asked
		wrong := errors.New("wrong")
		r.serve(func() error { loads++; return wrong })
		synctest.Wait()
		if loads != 2 || len(answers) != 41 || len(r.asked) != 0 {
			t.Errorf("%d loads answered %d, want 2 and 41", loads, len(answers))
		}
		failed := 0
		for range 41 {
			if errors.Is(<-answers, wrong) {
				failed++
			}
		}
		if failed != 40 {
			t.Errorf("the second load answered %d, want 40", failed)
		}
		go ask()
		synctest.Wait()
		r.end()
		if err := <-answers; !errors.Is(err, errEnded) {
			t.Errorf("at the end: got %v", err)
		}
	})
}

// TestLoadEndsWithItsContext ends a load while it rests.
func TestLoadEndsWithItsContext(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: api\ndescriptors:\n")
	const many = 10_000
	for range many {
		text.WriteString("- key: user\n")
	}
	ctx, cancel := context.WithCancel(t.Context())
	pauses := 0
	_, err := descriptors.Load([]descriptors.File{{Name: "a", Data: []byte(text.String())}}, descriptors.Options{
		Context: ctx,
		Pause: func() {
			if pauses++; pauses == many+many/10 { // the lines were looked at
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that of the context", err)
	}
	if pauses > many+many/2 {
		t.Errorf("the load went on for %d pauses", pauses-many)
	}
}
