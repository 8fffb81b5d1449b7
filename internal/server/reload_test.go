package server

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/testenv"
)

func TestReloadOnChange(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config func(t *testing.T, root string) string // makes the rules, returns their path
		change func(t *testing.T, root string)        // lets 7 pass instead of 3
	}{
		{
			name: "file written",
			config: func(t *testing.T, root string) string {
				write(t, root+"/config/a.yaml", limited(3))
				return root + "/config"
			},
			change: func(t *testing.T, root string) { write(t, root+"/config/a.yaml", limited(7)) },
		},
		{
			name: "file replaced, as editors do",
			config: func(t *testing.T, root string) string {
				write(t, root+"/config/a.yaml", limited(3))
				return root + "/config"
			},
			change: func(t *testing.T, root string) {
				write(t, root+"/config/.a.yaml.swp", limited(7))
				rename(t, root+"/config/.a.yaml.swp", root+"/config/a.yaml")
			},
		},
		{
			name: "single file replaced",
			config: func(t *testing.T, root string) string {
				write(t, root+"/a.yaml", limited(3))
				return root + "/a.yaml"
			},
			change: func(t *testing.T, root string) {
				write(t, root+"/new", limited(7))
				rename(t, root+"/new", root+"/a.yaml")
			},
		},
		{
			name: "ConfigMap swapped",
			config: func(t *testing.T, root string) string {
				configMap(t, root+"/config", limited(3))
				return root + "/config"
			},
			change: func(t *testing.T, root string) { configMap(t, root+"/config", limited(7)) },
		},
		{
			name: "single file of a ConfigMap swapped",
			config: func(t *testing.T, root string) string {
				configMap(t, root+"/config", limited(3))
				return root + "/config/rules.yaml"
			},
			change: func(t *testing.T, root string) { configMap(t, root+"/config", limited(7)) },
		},
		{
			name: "link on the way turned elsewhere",
			config: func(t *testing.T, root string) string {
				write(t, root+"/v1/ratelimit/config/a.yaml", limited(3))
				write(t, root+"/v2/ratelimit/config/a.yaml", limited(7))
				link(t, "v1", root+"/current")
				return root + "/current/ratelimit/config"
			},
			change: func(t *testing.T, root string) { link(t, "v2", root+"/current") },
		},
		{
			name: "file moved to a new subdirectory",
			config: func(t *testing.T, root string) string {
				write(t, root+"/config/a.yaml", limited(3))
				return root + "/config"
			},
			change: func(t *testing.T, root string) {
				write(t, root+"/config/.new/a.yaml", limited(7))
				rename(t, root+"/config/.new", root+"/config/sub")
				remove(t, root+"/config/a.yaml")
			},
		},
		{
			name: "directory replaced",
			config: func(t *testing.T, root string) string {
				write(t, root+"/config/a.yaml", limited(3))
				return root + "/config"
			},
			change: func(t *testing.T, root string) {
				rename(t, root+"/config", root+"/old")
				write(t, root+"/config/a.yaml", limited(7))
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			f := start(t, "--config="+tt.config(t, root))
			f.wantLimit(3)
			tt.change(t, root)
			f.wantLimit(7)
		})
	}
}

// TestChangeInNewSubdirectory holds the watch to directories that came later.
func TestChangeInNewSubdirectory(t *testing.T) {
	t.Parallel()
	dir := directory(t, "domain: other\n")
	f := start(t, "--config="+dir)
	write(t, dir+"/.new/a.yaml", limited(3))
	rename(t, dir+"/.new", dir+"/sub")
	f.wantLimit(3)
	write(t, dir+"/sub/a.yaml", limited(7))
	f.wantLimit(7)
}

// TestSiblingsOfTheRules changes what is beside the directory that the runtime
// settings name.
func TestSiblingsOfTheRules(t *testing.T) {
	t.Parallel()
	const other = "domain: other\n"
	for _, test := range []struct {
		name         string
		make, change func(t *testing.T, dir string) // lets 3, and then 7 pass
	}{
		{
			"file alone",
			func(t *testing.T, dir string) { write(t, dir+"/config.yaml", limited(3)) },
			func(t *testing.T, dir string) { write(t, dir+"/config.yaml", limited(7)) },
		},
		{
			"file that leads elsewhere",
			func(t *testing.T, dir string) {
				configMap(t, dir+"/mounted", limited(3))
				link(t, "mounted/rules.yaml", dir+"/config.yaml")
			},
			func(t *testing.T, dir string) { configMap(t, dir+"/mounted", limited(7)) },
		},
		{
			"file that comes later",
			func(t *testing.T, dir string) { write(t, dir+"/config/a.yaml", limited(3)) },
			func(t *testing.T, dir string) {
				write(t, dir+"/config/a.yaml", other)
				write(t, dir+"/config.api.yaml", limited(7))
			},
		},
		{
			"directory beside the directory",
			func(t *testing.T, dir string) {
				write(t, dir+"/config/a.yaml", other)
				write(t, dir+"/config.d/sub/a.yaml", limited(3))
			},
			func(t *testing.T, dir string) { write(t, dir+"/config.d/sub/a.yaml", limited(7)) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			test.make(t, root+"/ratelimit")
			where := []string{"--runtime-root=" + root, "--runtime-subdirectory=ratelimit"}
			f := start(t, where...)
			f.wantLimit(3)
			test.change(t, root+"/ratelimit")
			f.wantLimit(7)
		})
	}
}

// TestRulesWithoutSiblings has a sibling that is no rule at all.
func TestRulesWithoutSiblings(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/ratelimit/config/a.yaml", limited(3))
	write(t, root+"/ratelimit/config.yaml", "nonsense")
	args := []string{"--runtime-root=" + root, "--runtime-subdirectory=ratelimit"}
	if _, err := New(options(t, io.Discard, args...)); err == nil || !strings.Contains(err.Error(), "config.yaml:1") {
		t.Errorf("got error %v, want one that names the sibling", err)
	}
	t.Setenv("RUNTIME_WATCH_ROOT", "false")
	start(t, args...).wantLimit(3)
}

func TestReloadOnRequest(t *testing.T) {
	dir := directory(t, limited(3))
	f := start(t, "--config="+dir)
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 200, "rules loaded")
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "ratelimit_service_config_load_success 2\n")
	f.reload <- syscall.SIGHUP
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "ratelimit_service_config_load_success 3\n")
	remove(t, dir)
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 500, "no such file")
}

func TestBadRulesChangeNothing(t *testing.T) {
	dir := directory(t, limited(3))
	f := start(t, "--config="+dir)
	f.wantLimit(3)

	replace(t, dir+"/rules.yaml", "domain: api\ndescriptors:\n  - key: a\n    rate_limit: {unit: minuet, requests_per_unit: 1}\n  - key: b\n    colour: red\n")
	problems := []string{"rules.yaml:4:", "minuet", "rules.yaml:6:", "colour"}
	f.wantAnswer("GET", f.debug.addr(), "/", 200, append(problems, "The last load failed at ", " and changed nothing:")...)
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "ratelimit_service_config_load_error 1\n")
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 422, problems...)
	f.reload <- syscall.SIGHUP
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "ratelimit_service_config_load_error 3\n")
	f.wantLimit(3)
	f.wantHealth(true, "OK")
	for _, want := range []string{ // each in a record of its own
		`level=ERROR msg="new rules rejected; the old ones stay in use" path=` + dir + "\n",
		`level=ERROR msg="problem in the new rules" problem="` + dir + "/rules.yaml:4:",
		`level=ERROR msg="problem in the new rules" problem="` + dir + "/rules.yaml:6:",
	} {
		f.wantLog(want)
	}

	replace(t, dir+"/rules.yaml", "domain: api\ndescriptors:\n  - shape: round\n")
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "shape")
	f.wantLog(`problem="` + dir + `/rules.yaml:3:5: descriptors[0]: unknown field \"shape\"`)

	replace(t, dir+"/rules.yaml", limited(7))
	f.wantLimit(7)
	code, page, err := f.request("GET", f.debug.addr(), "/", "")
	if err != nil || code != 200 || strings.Contains(page, "failed") {
		t.Errorf("status after good rules: %d %s (error: %v)", code, page, err)
	}
}

// TestManyProblems bounds what a broken file costs where it is told and kept.
func TestManyProblems(t *testing.T) {
	dir := directory(t, limited(3))
	f := start(t, "--config="+dir)
	replace(t, dir+"/rules.yaml", "domain: api\ndescriptors:\n"+strings.Repeat("- colour: red\n", 1_000))
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "rules.yaml:3:", "rules.yaml:52:", "\n  and 1900 more\n")
	code, answer, err := f.request("POST", f.debug.addr(), "/-/reload", "")
	if err != nil || code != 422 || strings.Count(answer, "rules.yaml:") != mostProblems || !strings.Contains(answer, "\nand 1900 more") {
		t.Errorf("reload: %d, %d bytes (error: %v):\n%.2000s", code, len(answer), err, answer)
	}
	log := f.log.String()
	if n := strings.Count(log, "problem in the new rules"); n > 2*(mostProblems+1) || !strings.Contains(log, `problem="and 1900 more"`) {
		t.Errorf("%d problems are logged, want %d for each load and how many more there are", n, mostProblems)
	}
	if n := len(log); n > 100<<10 {
		t.Errorf("the log has %d bytes", n)
	}
	f.wantLimit(3)

	_, err = New(options(t, new(testenv.Log), "--config="+dir))
	if err == nil || strings.Count(err.Error(), "\n") != mostProblems+1 {
		t.Errorf("the error at start is %.2000v", err)
	}
}

func TestRulesThatDisappearGoOnServing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		remove  string // below the directory of the rules
		problem string
	}{
		{"directory", "", "no such file"},
		{"all files", "rules.yaml", "no rule files"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := directory(t, limited(3))
			f := start(t, "--config="+dir)
			f.wantLimit(3)
			remove(t, filepath.Join(dir, tt.remove))
			f.wantAnswer("GET", f.debug.addr(), "/", 200, tt.problem)
			f.wantLimit(3)
			write(t, dir+"/rules.yaml", limited(7))
			f.wantLimit(7)
		})
	}
}

func TestSkippedFileIsNamedOnce(t *testing.T) {
	dir := directory(t, limited(3))
	write(t, dir+"/notes.txt", "not rules")
	f := start(t, "--config="+dir)
	f.wantLog("notes.txt")
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 200)
	if n := strings.Count(f.log.String(), "notes.txt"); n != 1 {
		t.Errorf("the file was named %d times, want once", n)
	}
}

func TestMergedDomains(t *testing.T) {
	dir := directory(t, limited(3))
	write(t, dir+"/more.yaml", "domain: api\ndescriptors:\n  - key: path\n")
	if _, err := New(options(t, new(testenv.Log), "--config="+dir)); err == nil {
		t.Error("two files of one domain accepted")
	}
	start(t, "--config="+dir, "--merge-domain-config").wantLimit(3)
}

// configMap makes dir what the kubelet makes of a ConfigMap, or swaps it as the
// kubelet does: files are links through the link ..data, which alone is replaced.
func configMap(t *testing.T, dir, content string) {
	t.Helper()
	entries, _ := os.ReadDir(dir) // none the first time
	version := fmt.Sprintf("..version%d", len(entries))
	write(t, filepath.Join(dir, version, "rules.yaml"), content)
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	link(t, version, filepath.Join(dir, "..data"))
	if old == "" {
		link(t, "..data/rules.yaml", filepath.Join(dir, "rules.yaml"))
		return
	}
	remove(t, filepath.Join(dir, old))
}

// link makes a symbolic link, in one step in place of an older one.
func link(t *testing.T, target, name string) {
	t.Helper()
	testenv.OK(t, os.Symlink(target, name+"_tmp"))
	rename(t, name+"_tmp", name)
}

// replace puts content in the place of a file in one step, so that nobody reads a
// part of it.
func replace(t *testing.T, path, content string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(path), ".next")
	write(t, next, content)
	rename(t, next, path)
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	testenv.OK(t, os.Rename(from, to))
}

func remove(t *testing.T, path string) {
	t.Helper()
	testenv.OK(t, os.RemoveAll(path))
}

// What is hardly meant is told whenever rules are loaded, and does not keep them
// from serving.
func TestWarningsOfRulesAreLogged(t *testing.T) {
	f := start(t, "--config="+directory(t, "domain: api\n"))
	f.wantLog(`level=WARN msg="the rules may not do what you expect" warning="`)
	f.wantLog(`domain: the domain \"api\" has no rules, everything is admitted`)
}
