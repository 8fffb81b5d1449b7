package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestReleaseHasWhatDocumentsLinkTo follows the links of the documents that release.sh
// packs. They lead to what it packs, too.
func TestReleaseHasWhatDocumentsLinkTo(t *testing.T) {
	found := regexp.MustCompile(`(?s)\npacked=\(([^)]*)\)\n`).FindStringSubmatch(read(t, "release.sh"))
	if found == nil {
		t.Fatal("release.sh does not say what is packed")
	}
	list := exec.Command("git", append([]string{"ls-files", "--"}, strings.Fields(found[1])...)...)
	list.Dir = ".."
	out := testenv.Must(list.Output())(t)
	files := strings.Fields(string(out))
	isPacked := func(path string) bool {
		return slices.ContainsFunc(files, func(file string) bool { return file == path || strings.HasPrefix(file, path+"/") })
	}
	for _, file := range []string{"LICENSE", "CHANGELOG.md", "deploy/chart/README.md", "deploy/prometheus/alerts.yaml", "deploy/grafana/weir.json"} {
		if !isPacked(file) {
			t.Errorf("%s is not packed", file)
		}
	}
	links := 0
	for _, file := range files {
		if target, err := os.Readlink(filepath.Join("..", file)); err == nil {
			if target = filepath.Join(filepath.Dir(file), target); !isPacked(target) {
				t.Errorf("%s is a symbolic link to %s, which is not packed", file, target)
			}
			continue
		}
		if filepath.Ext(file) != ".md" {
			continue
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`).FindAllStringSubmatch(read(t, filepath.Join("..", file)), -1) {
			links++
			if target := filepath.Join(filepath.Dir(file), link[1]); !isPacked(target) {
				t.Errorf("%s links to %s, which is not packed", file, target)
			}
		}
	}
	if links < 200 {
		t.Errorf("there are %d links", links)
	}
}
