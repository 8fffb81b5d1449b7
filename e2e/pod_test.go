package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// pod is a Kubernetes pod with Weir, Envoy and what they need, all at the
// addresses that manifests name.
type pod struct {
	*testenv.Pod
	t      *testing.T
	client *http.Client
}

// podEnvoy is where Envoy listens in a pod, podUpstream what it forwards to.
const (
	podEnvoy    = "127.0.0.1:8888"
	podUpstream = "127.0.0.1:8000"
)

// newPod makes a pod with an upstream.
func newPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{Pod: testenv.NewPod(t), t: t}
	p.client = &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: p.Dial}}
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "upstream got %s", r.URL)
	}))
	upstream.Listener.Close()
	upstream.Listener = p.Listen(t, podUpstream)
	upstream.Start()
	t.Cleanup(upstream.Close)
	return p
}

// redis starts a redis-server at its usual port.
func (p *pod) redis() {
	p.t.Helper()
	cmd := exec.Command(testenv.RedisProgram(p.t), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", p.t.TempDir())
	launch(p.t, cmd, func() error { return p.Start(cmd) })
}

// weir starts Weir as Kubernetes starts the image, with exactly the variables
// in env. hosts are names of this pod, files what is mounted: directories of
// ConfigMaps and Secrets, with the texts of their files. Nothing else is there,
// nothing can be written, and the user is nobody.
func (p *pod) weir(env []string, hosts string, files map[string]map[string]string) *process {
	p.t.Helper()
	root := p.t.TempDir()
	write(p.t, root+"/bin/ratelimit", readDocument(p.t, program(p.t)))
	testenv.OK(p.t, os.Chmod(root+"/bin/ratelimit", 0o755))
	write(p.t, root+"/etc/hosts", "127.0.0.1 "+hosts+"\n")
	for dir, texts := range files {
		mount(p.t, filepath.Join(root, dir), "1", texts)
	}
	cmd := exec.Command("/bin/ratelimit")
	cmd.Env = env
	w := launch(p.t, cmd, func() error { return p.StartContainer(cmd, root) })
	wantUnprivileged(p.t, w)
	return w
}

// wantUnprivileged reads from the kernel that a process is nobody, that it has
// no capabilities, and that its root directory is read-only.
func wantUnprivileged(t *testing.T, p *process) {
	t.Helper()
	for file, want := range map[string]string{"status": "Uid:\t65534\t65534\t65534\t65534\n", "mountinfo": " / ro,"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Fatalf("%s does not contain %q (error: %v):\n%s", file, want, err, text)
		}
	}
}

// envoy starts Envoy with a bootstrap.
func (p *pod) envoy(bootstrap map[string]any) {
	p.t.Helper()
	file := writeBootstrap(p.t, bootstrap)
	validateBootstrap(p.t, file)
	cmd := exec.Command(testenv.Envoy(p.t), "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warn")
	cmd.Dir = p.t.TempDir()
	launch(p.t, cmd, func() error { return p.Start(cmd) })
}

// waitFor waits until url has an answer with this status.
func (p *pod) waitFor(status int, url string, headers ...string) {
	p.t.Helper()
	testenv.Eventually(p.t, func() error {
		a, err := fetchBy(p.client, url, headers...)
		if err == nil && a.status != status {
			err = fmt.Errorf("status %d, want %d: %s", a.status, status, a.body)
		}
		return err
	})
}

// want asks Envoy for path as often as there are statuses, and compares.
func (p *pod) want(path string, statuses ...int) {
	p.t.Helper()
	for i, want := range statuses {
		a, err := fetchBy(p.client, "http://"+podEnvoy+path)
		if err != nil || a.status != want {
			p.t.Fatalf("request %d to %s: status %d, want %d (error: %v)", i+1, path, a.status, want, err)
		}
	}
}
