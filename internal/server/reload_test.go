package server

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/testenv"
)

// change changes files below root. lines has commands separated by semicolons, each a verb with its
// arguments. The content of a file is given as the limit in its rules, or as "other" for rules of
// another domain.
func change(t *testing.T, root, lines string) {
	t.Helper()
	for line := range strings.SplitSeq(lines, "; ") {
		words := strings.Fields(line)
		first, second := filepath.Join(root, words[1]), words[len(words)-1]
		rules := "domain: other\n"
		if n, err := strconv.Atoi(second); err == nil {
			rules = limited(n)
		}
		switch words[0] {
		case "write":
			write(t, first, rules)
		case "keep": // keeps the time, and for limits of equal length also the size
			before := testenv.Must(os.Stat(first))(t)
			write(t, first, rules)
			testenv.OK(t, os.Chtimes(first, before.ModTime(), before.ModTime()))
		case "mount":
			mountFile(t, first, "rules.yaml", rules)
		case "link":
			link(t, second, first)
		case "rename":
			testenv.OK(t, os.Rename(first, filepath.Join(root, second)))
		case "remove":
			testenv.OK(t, os.RemoveAll(first))
		}
	}
}

// TestReloadOnChange changes rules at a path, or beside the directory of the runtime settings.
func TestReloadOnChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, path, make, change string }{
		{"file written", "config", "write config/a.yaml 3", "write config/a.yaml 7"},
		{"file written, with its size and time", "config", "write config/a.yaml 3", "keep config/a.yaml 7"},
		{"file replaced, as editors do", "config", "write config/a.yaml 3", "write config/.a.yaml.swp 7; rename config/.a.yaml.swp config/a.yaml"},
		{"single file replaced", "a.yaml", "write a.yaml 3", "write new 7; rename new a.yaml"},
		{"ConfigMap swapped", "config", "mount config 3", "mount config 7"},
		{"single file of a ConfigMap swapped", "config/rules.yaml", "mount config 3", "mount config 7"},
		{"link on the way turned elsewhere", "current/ratelimit/config", "write v1/ratelimit/config/a.yaml 3; write v2/ratelimit/config/a.yaml 7; link current v1", "link current v2"},
		{"file moved to a new subdirectory", "config", "write config/a.yaml 3", "write config/.new/a.yaml 7; rename config/.new config/sub; remove config/a.yaml"},
		{"directory replaced", "config", "write config/a.yaml 3", "rename config old; write config/a.yaml 7"},
		{"subdirectory turned elsewhere", "", "write v1/config/a.yaml 3; write v2/config/a.yaml 7; link ratelimit v1", "link ratelimit v2"},
		{"file beside no directory", "", "write ratelimit/config.yaml 3", "write ratelimit/config.yaml 7"},
		{"file that leads elsewhere", "", "mount ratelimit/mounted 3; link ratelimit/config.yaml mounted/rules.yaml", "mount ratelimit/mounted 7"},
		{"file that comes later", "", "write ratelimit/config/a.yaml 3", "write ratelimit/config/a.yaml other; write ratelimit/config.api.yaml 7"},
		{"directory beside the directory", "", "write ratelimit/config/a.yaml other; write ratelimit/config.d/sub/a.yaml 3", "write ratelimit/config.d/sub/a.yaml 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			change(t, root, tt.make)
			args := []string{"--config=" + filepath.Join(root, tt.path)}
			if tt.path == "" {
				args = []string{"--runtime-root=" + root, "--runtime-subdirectory=ratelimit"}
			}
			f := start(t, args...)
			f.wantLimit(3)
			change(t, root, tt.change)
			f.wantLimit(7)
		})
	}
}

// TestRulesWithoutSiblings has an invalid file beside the directory of rules. RUNTIME_WATCH_ROOT
// decides whether it is read.
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

// TestReloadOnRequest loads rules again by POST and by SIGHUP, and checks the metrics of loads.
func TestReloadOnRequest(t *testing.T) {
	began := float64(time.Now().Unix())
	dir := directory(t, limited(3))
	f := start(t, "--config="+dir)
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 200, "rules loaded")
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "ratelimit_service_config_load_success 2\n")
	f.reload <- syscall.SIGHUP
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "ratelimit_service_config_load_success 3\n", "weir_config_last_reload_successful 1\n")
	at := testutil.ToFloat64(f.source.(*files).successAt)
	testenv.OK(t, os.RemoveAll(dir))
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 500, "no such file")
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "weir_config_last_reload_successful 0\n")
	if now := testutil.ToFloat64(f.source.(*files).successAt); at < began || at > float64(time.Now().Unix()+1) || now != at {
		t.Errorf("the last success was at %v, after a failure at %v; the test began at %v", at, now, began)
	}
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
	for _, want := range []string{ // each in a separate record
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
	if _, page, err := f.request("GET", f.debug.addr(), "/", ""); err != nil || strings.Contains(page, "failed") {
		t.Errorf("status after good rules: %s (error: %v)", page, err)
	}
}

// TestManyProblems checks the maximum number of problems in logs, pages and memory.
func TestManyProblems(t *testing.T) {
	dir := directory(t, limited(3))
	f := start(t, "--config="+dir)
	replace(t, dir+"/rules.yaml", "domain: api\ndescriptors:\n"+strings.Repeat("- colour: red\n", 1_000))
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "rules.yaml:3:", "rules.yaml:52:", "\n  and 1900 more\n")
	code, answer, err := f.request("POST", f.debug.addr(), "/-/reload", "")
	if err != nil || code != 422 || strings.Count(answer, "rules.yaml:") != maxProblems || !strings.Contains(answer, "\nand 1900 more") {
		t.Errorf("reload: %d, %d bytes (error: %v):\n%.2000s", code, len(answer), err, answer)
	}
	log := f.log.String()
	if n := strings.Count(log, "problem in the new rules"); n > 2*(maxProblems+1) || !strings.Contains(log, `problem="and 1900 more"`) {
		t.Errorf("%d problems are logged, want %d for each load and how many more there are", n, maxProblems)
	}
	if n := len(log); n > 100<<10 {
		t.Errorf("the log has %d bytes", n)
	}
	f.wantLimit(3)

	_, err = New(options(t, new(testenv.Log), "--config="+dir))
	if err == nil || strings.Count(err.Error(), "\n") != maxProblems+1 {
		t.Errorf("the error at start is %.2000v", err)
	}
}

func TestRulesThatDisappearGoOnServing(t *testing.T) {
	t.Parallel()
	for problem, gone := range map[string]string{"no such file": "", "no rule files": "rules.yaml", "it is not a regular file": "rules.yaml"} {
		dir := directory(t, limited(3))
		f := start(t, "--config="+dir)
		f.wantLimit(3)
		testenv.OK(t, os.RemoveAll(filepath.Join(dir, gone)))
		if problem == "it is not a regular file" { // a pipe, from which a read would never return
			testenv.OK(t, syscall.Mkfifo(dir+"/rules.yaml", 0o600))
		}
		f.wantAnswer("GET", f.debug.addr(), "/", 200, problem)
		f.wantLimit(3)
		replace(t, dir+"/rules.yaml", limited(7))
		f.wantLimit(7)
	}
}

func TestSkippedFileIsNamedOnce(t *testing.T) {
	dir := directory(t, limited(3))
	write(t, dir+"/notes.txt", "not rules")
	f := start(t, "--config="+dir)
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 200)
	testenv.Equal(t, strings.Count(f.log.String(), "notes.txt"), 1, "logs of the file")
}

// TestMergedDomains loads two files of one domain. Their rules are used, and warnings are logged.
func TestMergedDomains(t *testing.T) {
	dir := directory(t, limited(3))
	write(t, dir+"/more.yaml", "domain: api\ndescriptors:\n  - key: path\n")
	write(t, dir+"/none.yaml", "domain: none\n")
	if _, err := New(options(t, io.Discard, "--config="+dir)); err == nil {
		t.Error("two files of one domain accepted")
	}
	f := start(t, "--config="+dir, "--merge-domain-config")
	f.wantLimit(3)
	f.wantLog(`level=WARN msg="the rules may not do what you expect" warning="`)
	f.wantLog(`domain: the domain \"none\" has no rules, everything is admitted`)
}

// mountFile mounts or replaces a ConfigMap or a Secret with one file at dir as the kubelet does: the
// file is a link through the link ..data, and only that link is replaced. It returns the file's path.
func mountFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	testenv.OK(t, os.MkdirAll(dir, 0o755))
	version := testenv.Must(os.MkdirTemp(dir, "..version"))(t)
	write(t, filepath.Join(version, name), content)
	old, _ := os.Readlink(filepath.Join(dir, "..data")) // empty the first time
	link(t, filepath.Base(version), filepath.Join(dir, "..data"))
	path := filepath.Join(dir, name)
	if old == "" {
		link(t, "..data/"+name, path)
	} else {
		testenv.OK(t, os.RemoveAll(filepath.Join(dir, old)))
	}
	return path
}

// link makes a symbolic link, or replaces one in one step.
func link(t *testing.T, target, name string) {
	t.Helper()
	testenv.OK(t, os.Symlink(target, name+"_tmp"))
	testenv.OK(t, os.Rename(name+"_tmp", name))
}
