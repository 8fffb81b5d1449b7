package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// userRules let a user make so many requests a day.
func userRules(amount int) string {
	return fmt.Sprintf("domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: %d}}]\n", amount)
}

// The directories of the reference, in the two ways in which they change: the
// root is a link that is turned elsewhere, or a ConfigMap is mounted below it.
func TestRuntimeDirectories(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		env    []string
		rules  string                          // directory of the rules below the root
		make   func(t *testing.T, root string) // lets 3 pass
		change func(t *testing.T, root string) // lets 7 pass
	}{
		{
			name: "root turned elsewhere",
			env:  []string{"RUNTIME_ROOT=ROOT/current", "RUNTIME_SUBDIRECTORY=ratelimit"},
			make: func(t *testing.T, root string) {
				write(t, root+"/v1/ratelimit/config/a.yaml", userRules(3))
				write(t, root+"/v2/ratelimit/config/a.yaml", userRules(7))
				turn(t, root+"/current", "v1")
			},
			change: func(t *testing.T, root string) { turn(t, root+"/current", "v2") },
		},
		{
			name: "ConfigMap",
			env:  []string{"RUNTIME_ROOT=ROOT", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "RUNTIME_IGNOREDOTFILES=true"},
			make: func(t *testing.T, root string) {
				mount(t, root+"/ratelimit/config", "1", map[string]string{"config.yaml": userRules(3)})
			},
			change: func(t *testing.T, root string) {
				mount(t, root+"/ratelimit/config", "2", map[string]string{"config.yaml": userRules(7)})
			},
		},
		{
			name: "ConfigMap in the place of the subdirectory",
			env:  []string{"RUNTIME_ROOT=ROOT", "RUNTIME_SUBDIRECTORY=ratelimit"},
			make: func(t *testing.T, root string) {
				mount(t, root+"/ratelimit", "1", map[string]string{"config.yaml": userRules(3), "other.yaml": "no: rules"})
			},
			change: func(t *testing.T, root string) {
				mount(t, root+"/ratelimit", "2", map[string]string{"config.yaml": userRules(7), "other.yaml": "no: rules"})
			},
		},
		{
			name:   "directory of another name",
			env:    []string{"RUNTIME_ROOT=ROOT", "RUNTIME_SUBDIRECTORY=a/b", "RUNTIME_APPDIRECTORY=rules"},
			make:   func(t *testing.T, root string) { write(t, root+"/a/b/rules/a.yaml", userRules(3)) },
			change: func(t *testing.T, root string) { write(t, root+"/a/b/rules/a.yaml", userRules(7)) },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			tt.make(t, root)
			w := runWeir(t, inRoot(tt.env, root), program(t))
			w.waitUntilHealthy()
			w.wantRemaining(3)
			tt.change(t, root)
			w.wantRemaining(7)
		})
	}
}

// What the reference starts with, no rules at all or those of the good files
// only, would let requests pass that somebody meant to limit.
func TestNoStartWithLessThanAllRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		env   []string
		wants []string
	}{
		{"subdirectory forgotten", []string{"RUNTIME_ROOT=ROOT"}, []string{"ROOT/config (see RUNTIME_ROOT, RUNTIME_SUBDIRECTORY", "no such file"}},
		{"root forgotten", []string{"RUNTIME_SUBDIRECTORY=no/such"}, []string{"/srv/runtime_data/current/no/such/config", "no such file"}},
		{"one bad file", []string{"RUNTIME_ROOT=ROOT", "RUNTIME_SUBDIRECTORY=ratelimit"}, []string{"bad.yaml:1:", "domian"}},
		{"one domain in two files", []string{"RUNTIME_ROOT=ROOT", "RUNTIME_SUBDIRECTORY=twice"}, []string{"b.yaml:1:", "api", "a.yaml"}},
		{"no file", []string{"RUNTIME_ROOT=ROOT", "RUNTIME_SUBDIRECTORY=empty"}, []string{"ROOT/empty/config", "no file of rules"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			write(t, root+"/ratelimit/config/good.yaml", userRules(3))
			write(t, root+"/ratelimit/config/bad.yaml", "domian: other\n")
			write(t, root+"/twice/config/a.yaml", userRules(3))
			write(t, root+"/twice/config/b.yaml", userRules(3))
			write(t, root+"/empty/config/.hidden.yaml", userRules(3))
			w := runWeir(t, inRoot(tt.env, root), program(t))
			if code := w.exitCode(); code == 0 {
				t.Error("it ends as if all were well")
			}
			for _, want := range tt.wants {
				if want = strings.ReplaceAll(want, "ROOT/", root+"/"); !strings.Contains(w.output.String(), want) {
					t.Errorf("it does not say %q", want)
				}
			}
		})
	}
}

// inRoot puts root for ROOT in the values of an environment.
func inRoot(env []string, root string) []string {
	env = slices.Clone(env)
	for i := range env {
		env[i] = strings.ReplaceAll(env[i], "=ROOT", "="+root)
	}
	return env
}

// wantRemaining waits until a user who has made no request may make so many.
func (w *weir) wantRemaining(want uint32) {
	w.t.Helper()
	testenv.Eventually(w.t, func() error {
		if got := w.remaining("user", "new"); got != want {
			return fmt.Errorf("a user may make %d requests, want %d", got, want)
		}
		return nil
	})
}

// write writes a file and the directories on the way to it.
func write(t *testing.T, file, text string) {
	t.Helper()
	testenv.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
	testenv.OK(t, os.WriteFile(file, []byte(text), 0o644))
}

// turn makes link lead to target, in one step.
func turn(t *testing.T, link, target string) {
	t.Helper()
	testenv.OK(t, os.Symlink(target, link+".next"))
	testenv.OK(t, os.Rename(link+".next", link))
}

// mount makes dir what the kubelet makes of a ConfigMap or Secret, or swaps it
// as the kubelet does: each file is a link through ..data, which alone changes.
func mount(t *testing.T, dir, version string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		write(t, filepath.Join(dir, "..version"+version, name), text)
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			turn(t, filepath.Join(dir, name), "..data/"+name)
		}
	}
	turn(t, filepath.Join(dir, "..data"), "..version"+version)
}
