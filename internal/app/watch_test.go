package app

import (
	"log/slog"
	"path/filepath"
	"testing"
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
