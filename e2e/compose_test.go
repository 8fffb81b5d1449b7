package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"weir/internal/testenv"
)

// compose is what the tests read of docker-compose.yml.
type compose struct {
	Services map[string]struct {
		Image, Build string
		NetworkMode  string `yaml:"network_mode"`
		Environment  map[string]string
		Volumes      []string
		DependsOn    map[string]struct{ Condition string } `yaml:"depends_on"`
		Healthcheck  struct{ Test []string }
	}
}

func readCompose(t *testing.T) compose {
	t.Helper()
	var c compose
	parse(t, readDocument(t, "docker-compose.yml"), &c)
	return c
}

// The images cannot be had everywhere. What the file says of this repository
// can be checked: services, mounts, environment and versions.
func TestCompose(t *testing.T) {
	t.Parallel()
	root := testenv.Repository(t)
	services := readCompose(t).Services
	help := output(t, program(t), "serve", "--help")
	for _, name := range []string{"envoy", "weir", "echo", "redis"} {
		s, ok := services[name]
		if !ok {
			t.Errorf("service %s is missing", name)
		}
		if s.Build == "" && !regexp.MustCompile(`:v?\d+\.\d+`).MatchString(s.Image) {
			t.Errorf("service %s: image %q has no fixed version", name, s.Image)
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				t.Errorf("service %s mounts what is not there: %v", name, err)
			}
		}
		needed := strings.TrimPrefix(s.NetworkMode, "service:")
		if _, ok := services[needed]; needed != "" && !ok {
			t.Errorf("service %s shares the network of %q, which does not exist", name, needed)
		}
		for needed, d := range s.DependsOn {
			if d.Condition == "service_healthy" && services[needed].Healthcheck.Test == nil {
				t.Errorf("service %s waits for %s to be healthy, which has no health check", name, needed)
			}
		}
	}
	for variable := range services["weir"].Environment {
		if !strings.Contains(help, "$"+variable) {
			t.Errorf("service weir sets %s, which serve --help does not know", variable)
		}
	}
}

func TestComposeHealthcheckAsksWeir(t *testing.T) {
	t.Parallel()
	test := readCompose(t).Services["envoy"].Healthcheck.Test
	if len(test) != 4 || !slices.Equal(test[:3], []string{"CMD", "bash", "-c"}) {
		t.Fatalf("the health check of envoy is not a line of bash: %q", test)
	}
	shell := testenv.Shell(t)
	w := startWeir(t, "config")
	_, port, _ := strings.Cut(w.http, ":")
	script := strings.ReplaceAll(test[3], "/8080", "/"+port)
	if out, err := exec.Command(shell, "-c", script).CombinedOutput(); err != nil {
		t.Errorf("it fails while Weir is healthy: %v\n%s", err, out)
	}
	w.signal(syscall.SIGKILL)
	w.exitCode()
	if err := exec.Command(shell, "-c", script).Run(); err == nil {
		t.Error("it passes without Weir")
	}
}
