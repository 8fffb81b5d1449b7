package server

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors"
	"weir/internal/settings"
	"weir/internal/testenv"
)

func TestWhichChangesConcernTheRules(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, root+"/v1/config/sub/a.yaml", limited(3))
	link(t, "v1", root+"/current")
	tests := []struct {
		path    string // of the rules
		changed string
		want    bool
	}{
		{"current/config", "v1/config/new.yaml", true},
		{"current/config", "v1/config/sub/a.yaml", true},
		{"current/config", "v1/config", true},
		{"current/config", "current", true},
		{"current/config", "v1/elsewhere", false},
		{"current/config", "v2", false},
		{"current/config/sub/a.yaml", "v1/config/sub/a.yaml", true},
		{"current/config/sub/a.yaml", "v1/config/sub/..data", true},
		{"current/config/sub/a.yaml", "v1/config/b.yaml", false},
		{"missing/config", "missing", true},
		{"missing/config", "v1", false},
	}
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.changed, func(t *testing.T) {
			w := newWatcher(filepath.Join(root, tt.path), slog.New(slog.DiscardHandler))
			defer w.close()
			w.follow()
			if got := w.concerns(filepath.Join(root, tt.changed)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// Of what the system could not tell, nobody knows what it was.
func TestLostEventsLetTheRulesBeRead(t *testing.T) {
	dir := directory(t, limited(3))
	r := newRules(descriptors.Options{}, func() {}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	f := newFiles(r, settings.Rules{RulesPath: settings.RulesPath{Config: dir}}, nil)
	rules := func(want int) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if tree := r.tree.Load(); tree == nil || tree.Rules() != want {
				return fmt.Errorf("%d rules are not loaded", want)
			}
			return nil
		})
	}
	lost := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	var task sync.WaitGroup
	task.Go(func() { f.watch(ctx, &watcher{path: dir, errors: lost}, time.Hour, nil) })
	defer task.Wait()
	defer stop()
	rules(1)

	write(t, dir+"/rules.yaml", limited(3)+"  - key: path\n")
	lost <- fsnotify.ErrEventOverflow
	rules(2)
}
