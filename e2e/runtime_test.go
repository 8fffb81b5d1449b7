package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// The directories of the reference, in the two ways in which they change: the
// root is a link that is turned elsewhere, or a ConfigMap is mounted below it.
func TestRuntimeDirectories(t *testing.T) {
	t.Parallel()
	configMap := func(dir, beside string) func(*testing.T, string, string, int) {
		return func(t *testing.T, root, version string, amount int) {
			mount(t, root+dir, version, map[string]string{"config.yaml": userRules(amount), beside: "no: rules"})
		}
	}
	for name, test := range map[string]struct {
		env  string
		make func(t *testing.T, root, version string, amount int) // rules that let so many pass
	}{
		"root turned elsewhere": {"RUNTIME_ROOT=ROOT/current RUNTIME_SUBDIRECTORY=ratelimit", func(t *testing.T, root, version string, amount int) {
			write(t, root+"/v"+version+"/ratelimit/config/a.yaml", userRules(amount))
			turn(t, root+"/current", "v"+version)
		}},
		"ConfigMap": {"RUNTIME_ROOT=ROOT RUNTIME_SUBDIRECTORY=ratelimit RUNTIME_WATCH_ROOT=false RUNTIME_IGNOREDOTFILES=true", configMap("/ratelimit/config", "notes.txt")},
		"ConfigMap in the place of the subdirectory": {"RUNTIME_ROOT=ROOT RUNTIME_SUBDIRECTORY=ratelimit", configMap("/ratelimit", "other.yaml")},
		"directory of another name": {"RUNTIME_ROOT=ROOT RUNTIME_SUBDIRECTORY=a/b RUNTIME_APPDIRECTORY=rules", func(t *testing.T, root, _ string, amount int) {
			write(t, root+"/a/b/rules/a.yaml", userRules(amount))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			test.make(t, root, "1", 3)
			w := runWeir(t, strings.Fields(strings.ReplaceAll(test.env, "=ROOT", "="+root)), program(t))
			w.waitUntilHealthy()
			w.waitForRemaining(3, "api", "user", "new")
			test.make(t, root, "2", 7)
			w.waitForRemaining(7, "api", "user", "new")
		})
	}
}

// What the reference starts with, no rules at all or those of the good files
// only, would let requests pass that somebody meant to limit.
func TestNoStartWithLessThanAllRules(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root+"/ratelimit/config/good.yaml", userRules(3))
	write(t, root+"/ratelimit/config/bad.yaml", "domian: other\n")
	write(t, root+"/twice/config/a.yaml", userRules(3))
	write(t, root+"/twice/config/b.yaml", userRules(3))
	write(t, root+"/empty/config/.hidden.yaml", userRules(3))
	for name, test := range map[string]struct{ env, wants []string }{
		"subdirectory forgotten":  {[]string{"RUNTIME_ROOT=" + root}, []string{root + "/config (see RUNTIME_ROOT, RUNTIME_SUBDIRECTORY", "no such file"}},
		"root forgotten":          {[]string{"RUNTIME_SUBDIRECTORY=no/such"}, []string{"/srv/runtime_data/current/no/such/config", "no such file"}},
		"one bad file":            {[]string{"RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=ratelimit"}, []string{"bad.yaml:1:", "domian"}},
		"one domain in two files": {[]string{"RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=twice"}, []string{"b.yaml:1:", "api", "a.yaml"}},
		"no file":                 {[]string{"RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=empty"}, []string{root + "/empty/config", "no rule files"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantNoStart(t, test.env, test.wants...)
		})
	}
}

// wantNoStart starts Weir, which must end by itself and say why.
func wantNoStart(t *testing.T, env []string, wants ...string) {
	t.Helper()
	w := runWeir(t, env, program(t))
	w.wantExit(1)
	for _, want := range wants {
		if !strings.Contains(w.output.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
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
