package manifests

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestChartIsWhole packs the chart. Links in it lead to files of this repository, which
// the archive holds.
func TestChartIsWhole(t *testing.T) {
	dir := t.TempDir()
	if out, err := helm(t, "package", chart, "--destination", dir).CombinedOutput(); err != nil {
		t.Fatalf("helm package: %v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "weir-*.tgz"))
	if err != nil || len(files) != 1 {
		t.Fatalf("helm package made %v (error: %v)", files, err)
	}
	packed := unpack(t, files[0])
	for name, source := range map[string]string{
		"weir/files/alerts.yaml": "../../../deploy/prometheus/alerts.yaml", "weir/files/dashboard.json": "../../../deploy/grafana/weir.json", "weir/files/settings.md": "../../../docs/settings.md",
	} {
		if packed[name] != readFile(t, source) {
			t.Errorf("%s is not %s", name, source)
		}
	}
}

// TestReleasedChart renders the chart as scripts/release.sh packs it: with the release's
// version, and with files that its documents link to.
func TestReleasedChart(t *testing.T) {
	for version, number := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-4-gabcdef0": "1.2.3-4-gabcdef0", "0123456": "0.0.0-g0123456"} {
		dir := t.TempDir()
		if out, err := exec.Command("../../../scripts/chart.sh", dir, version).CombinedOutput(); err != nil {
			t.Fatalf("chart.sh: %v\n%s", err, out)
		}
		released := filepath.Join(dir, "weir")
		if out, err := helm(t, "lint", "--strict", released).CombinedOutput(); err != nil {
			t.Errorf("helm lint: %v\n%s", err, out)
		}
		manifests := testenv.Must(helm(t, "template", "edge", released, "--set", "prometheusRule.enabled=true,dashboard.enabled=true").Output())(t)
		for _, want := range []string{`/weir:` + version + `"`, `app.kubernetes.io/version: "` + version + `"`, "helm.sh/chart: weir-" + number + "\n"} {
			if !strings.Contains(string(manifests), want) {
				t.Errorf("there is no %q in:\n%s", want, manifests)
			}
		}
		err := filepath.WalkDir(released, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&fs.ModeSymlink != 0 {
				t.Errorf("%s is a symbolic link", path)
			}
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			for _, found := range regexp.MustCompile(`\]\(([^)#:\s]+)[^)]*\)`).FindAllStringSubmatch(readFile(t, path), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), found[1])); err != nil {
					t.Errorf("a link of %s: %v", path, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// unpack returns the files of a .tgz.
func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	compressed := testenv.Must(gzip.NewReader(strings.NewReader(readFile(t, file))))(t)
	files := map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text := testenv.Must(io.ReadAll(archive))(t)
		files[header.Name] = string(text)
	}
}

// TestChartReadme renders the chart with the values of README.md, by its command.
func TestChartReadme(t *testing.T) {
	readme := readFile(t, filepath.Join(chart, "README.md"))
	_, rest, _ := strings.Cut(readme, "```yaml\n")
	values, _, _ := strings.Cut(rest, "```")
	manifests := testenv.Must(render(values))(t)
	for _, want := range []string{`image: "registry.example.com/weir:v1.0.0"`, `value: "redis:6379"`, "requests_per_unit: 5"} {
		if !strings.Contains(manifests, want) {
			t.Errorf("no %s in:\n%s", want, manifests)
		}
	}
	command := regexp.MustCompile(`(?m)^ {4}helm install weir deploy/chart --namespace gateway --values my\.yaml$`).FindString(readme)
	if command == "" {
		t.Fatal("README.md does not install the chart")
	}
	file := filepath.Join(t.TempDir(), "my.yaml")
	testenv.OK(t, os.WriteFile(file, []byte(values), 0o600))
	words := strings.Fields(strings.NewReplacer("my.yaml", file, "deploy/chart", chart).Replace(command))
	notes, err := helm(t, append(words[1:], "--dry-run=client")...).CombinedOutput()
	if err != nil || !strings.Contains(string(notes), "Envoy asks Weir at weir.gateway:8081 (gRPC).") || strings.Contains(string(notes), "WARNING") {
		t.Errorf("%s: %v\n%s", command, err, notes)
	}
}
