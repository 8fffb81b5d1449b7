package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fences   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// A link in a document leads to a file that there is, and to one of its headings.
func TestLinksInDocuments(t *testing.T) {
	const root = "../.."
	checked := 0
	for _, name := range documents(t, root) {
		for _, link := range links.FindAllStringSubmatch(prose(t, filepath.Join(root, name)), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			checked++
			path, anchor, _ := strings.Cut(link[1], "#")
			target := filepath.Join(root, name)
			if path != "" {
				target = filepath.Join(root, filepath.Dir(name), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: %v", name, link[1], err)
			} else if anchor != "" && !anchors(prose(t, target))[anchor] {
				t.Errorf("%s: there is no heading %s", name, link[1])
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d links were found, want at least 100", checked)
	}
}

// documents lists the Markdown files of the repository.
func documents(t *testing.T, root string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && name != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// prose is a document without its code.
func prose(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return fences.ReplaceAllString(string(text), "")
}

// anchors are the names by which links lead to the headings of a document.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, heading := range headings.FindAllStringSubmatch(text, -1) {
		name := noAnchor.ReplaceAllString(strings.ToLower(heading[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}
