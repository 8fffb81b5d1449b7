package descriptors

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/testenv"
)

// write fills a new directory with files and returns its path. A content that
// begins with -> makes a symbolic link.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		testenv.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		testenv.OK(t, err)
	}
	return dir
}

func TestReadFiles(t *testing.T) {
	for _, test := range []struct {
		name    string
		files   map[string]string
		paths   []string // below the directory
		want    []string
		skipped []string
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
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := write(t, test.files)
			var paths []string
			for _, path := range test.paths {
				paths = append(paths, filepath.Join(dir, path))
			}
			files, skipped, err := ReadFiles(paths...)
			testenv.OK(t, err)
			var got []string
			for i := range files {
				name := strings.TrimPrefix(filepath.ToSlash(files[i].Name), filepath.ToSlash(dir)+"/")
				got = append(got, name)
				if content, ok := test.files[name]; ok && string(files[i].Data) != content && !strings.HasPrefix(content, "-> ") {
					t.Errorf("%s: got content %q, want %q", name, files[i].Data, content)
				}
			}
			for i := range skipped {
				skipped[i] = strings.TrimPrefix(filepath.ToSlash(skipped[i]), filepath.ToSlash(dir)+"/")
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got files %q, want %q", got, test.want)
			}
			if !slices.Equal(skipped, test.skipped) {
				t.Errorf("got skipped %q, want %q", skipped, test.skipped)
			}
		})
	}
}

func TestReadFilesNamesEveryMissingPath(t *testing.T) {
	dir := write(t, map[string]string{"a.yaml": "a", "sub/dangling.yaml": "-> nowhere"})
	_, _, err := ReadFiles(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "none"), filepath.Join(dir, "sub"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"none", "dangling.yaml"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

func TestReadFilesBoundsSize(t *testing.T) {
	dir := write(t, map[string]string{"rules.yaml": "domain: api\n#" + strings.Repeat("x", strictyaml.MaxFileSize+100)})
	files, _, err := ReadFiles(dir)
	testenv.OK(t, err)
	if got, want := len(files[0].Data), strictyaml.MaxFileSize+1; got != want {
		t.Errorf("read %d bytes, want %d", got, want)
	}
}

func TestReadWithSiblings(t *testing.T) {
	for _, test := range []struct {
		name          string
		files         map[string]string
		want, skipped []string
		problem       string
	}{
		{
			name: "all that begins so",
			files: map[string]string{
				"config/a.yaml": "", "config/config.b.yaml": "", "config.yaml": "", "config.d/sub/c": "", "config.json": "",
				"configs.yaml": "", "config_test.yaml": "", "config.x_test.yaml": "", "a.yaml": "", "config.bak": "",
			},
			want:    []string{"config/a.yaml", "config/config.b.yaml", "config.d/sub/c", "config.json", "config.yaml"},
			skipped: []string{"config.bak"},
		},
		{name: "only siblings", files: map[string]string{"config.yaml": ""}, want: []string{"config.yaml"}},
		{name: "none", files: map[string]string{"config/a.yaml": "", "other.yaml": ""}, want: []string{"config/a.yaml"}},
		{name: "nothing", files: map[string]string{"other.yaml": ""}, problem: "config: no such file"},
		{name: "a sibling that leads nowhere", files: map[string]string{"config/a.yaml": "", "config.yaml": "-> nowhere"}, problem: "config.yaml: no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := write(t, test.files)
			files, skipped, err := ReadWithSiblings(filepath.Join(dir, "config"))
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("got error %v, want %s", err, test.problem)
				}
				return
			}
			testenv.OK(t, err)
			var got []string
			for _, f := range files {
				name, _ := filepath.Rel(dir, f.Name)
				got = append(got, name)
			}
			for i := range skipped {
				skipped[i], _ = filepath.Rel(dir, skipped[i])
			}
			if !slices.Equal(got, test.want) || !slices.Equal(skipped, test.skipped) {
				t.Errorf("got %v, skipped %v, want %v, skipped %v", got, skipped, test.want, test.skipped)
			}
		})
	}
}
