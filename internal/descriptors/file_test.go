package descriptors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/testenv"
)

// write writes files to a new directory and returns its path. For content that begins with ->,
// it makes a symbolic link.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		testenv.Write(t, path, content)
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			testenv.OK(t, os.Remove(path))
			testenv.OK(t, os.Symlink(target, path))
		}
	}
	return dir
}

func TestReadFiles(t *testing.T) {
	for _, test := range []struct {
		name     string
		files    map[string]string
		paths    []string // relative to the directory
		siblings bool     // call ReadWithSiblings with the only path
		want     []string
		skipped  []string
		problems []string
	}{
		{
			name: "a directory, recursively and by name",
			files: map[string]string{
				"c.yaml": "c", "a.yml": "a", "b/z.json": "z", "b/a/rules": "rules", "B.yaml": "B",
				"notes.md": "", "b/old.yaml~": "", "c.YAML": "",
			},
			paths:   []string{"."},
			want:    []string{"B.yaml", "a.yml", "b/a/rules", "b/z.json", "c.yaml"},
			skipped: []string{"b/old.yaml~", "c.YAML", "notes.md"},
		},
		{
			name:  "no hidden files, no tests of rules",
			files: map[string]string{"a.yaml": "a", ".b.yaml": "", ".git/c.yaml": "", "a_test.yaml": "", ".#a.yaml": "-> nowhere"},
			paths: []string{"."},
			want:  []string{"a.yaml"},
		},
		{
			name: "a mounted ConfigMap, once",
			files: map[string]string{
				"..2026_01_02/a.yaml": "a", "..data": "-> ..2026_01_02", "a.yaml": "-> ..data/a.yaml",
			},
			paths: []string{"."},
			want:  []string{"a.yaml"},
		},
		{
			name:    "no links to directories",
			files:   map[string]string{"sub/a.yaml": "a", "sub/up": "-> .."},
			paths:   []string{"."},
			want:    []string{"sub/a.yaml"},
			skipped: []string{"sub/up"},
		},
		{
			name:  "named files, whatever their names",
			files: map[string]string{"b.txt": "b", ".a_test.yaml": "a", "dir/c.yaml": "c", "link": "-> dir"},
			paths: []string{"b.txt", ".a_test.yaml", "link"},
			want:  []string{"b.txt", ".a_test.yaml", "link/c.yaml"},
		},
		{
			name:  "nothing",
			files: map[string]string{".hidden": ""},
			paths: []string{"."},
		},
		{
			name:     "every path that is missing",
			files:    map[string]string{"a.yaml": "a", "sub/dangling.yaml": "-> nowhere"},
			paths:    []string{"a.yaml", "none", "sub"},
			problems: []string{"none: no such file", "dangling.yaml: no such file"},
		},
		{
			name: "all that begins so",
			files: map[string]string{
				"config/a.yaml": "", "config/config.b.yaml": "", "config.yaml": "", "config.d/sub/c": "", "config.json": "",
				"configs.yaml": "", "config_test.yaml": "", "config.x_test.yaml": "", "a.yaml": "", "config.bak": "",
			},
			paths:    []string{"config"},
			siblings: true,
			want:     []string{"config/a.yaml", "config/config.b.yaml", "config.d/sub/c", "config.json", "config.yaml"},
			skipped:  []string{"config.bak"},
		},
		{name: "only siblings", files: map[string]string{"config.yaml": ""}, paths: []string{"config"}, siblings: true, want: []string{"config.yaml"}},
		{name: "no siblings", files: map[string]string{"config/a.yaml": "", "other.yaml": ""}, paths: []string{"config"}, siblings: true, want: []string{"config/a.yaml"}},
		{name: "neither", files: map[string]string{"other.yaml": ""}, paths: []string{"config"}, siblings: true, problems: []string{"config: no such file"}},
		{name: "a sibling that leads nowhere", files: map[string]string{"config/a.yaml": "", "config.yaml": "-> nowhere"}, paths: []string{"config"}, siblings: true, problems: []string{"config.yaml: no such file"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := write(t, test.files)
			var paths []string
			for _, path := range test.paths {
				paths = append(paths, filepath.Join(dir, path))
			}
			files, skipped, err := ReadFiles(paths...)
			if test.siblings {
				files, skipped, err = ReadWithSiblings(paths[0])
			}
			testenv.Contains(t, fmt.Sprint(err), test.problems...)
			testenv.Equal(t, err == nil, test.problems == nil, "there is no error, such as %v", err)
			var got []string
			for i := range files {
				name := testenv.Must(filepath.Rel(dir, files[i].Name))(t)
				got = append(got, name)
				if content, ok := test.files[name]; ok && string(files[i].Data) != content && !strings.HasPrefix(content, "-> ") {
					t.Errorf("%s: got content %q, want %q", name, files[i].Data, content)
				}
			}
			for i := range skipped {
				skipped[i] = testenv.Must(filepath.Rel(dir, skipped[i]))(t)
			}
			testenv.EqualLists(t, got, test.want, "files")
			testenv.EqualLists(t, skipped, test.skipped, "skipped files")
		})
	}
}

func TestReadFilesBoundsSize(t *testing.T) {
	dir := write(t, map[string]string{"rules.yaml": "domain: api\n#" + strings.Repeat("x", strictyaml.MaxFileSize+100)})
	files, _, err := ReadFiles(dir)
	testenv.OK(t, err)
	testenv.Equal(t, len(files[0].Data), strictyaml.MaxFileSize+1, "bytes that are read")
}
