package limittest

import (
	"path/filepath"
	"slices"
	"testing"

	"weir/internal/testenv"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b_test.yaml", "a.yaml", "sub/c_test.yaml", "a/z_test.yaml", ".git/d_test.yaml", ".e_test.yaml", "empty/f.yaml", "n_test.yml"} {
		testenv.Write(t, filepath.Join(dir, name), "")
	}
	in := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
		return paths
	}
	for _, tt := range []struct{ paths, want []string }{
		{in(""), in("a/z_test.yaml", "b_test.yaml", "sub/c_test.yaml")},
		{in("sub", "a.yaml", "none", "a"), in("sub/c_test.yaml", "a.yaml", "none", "a/z_test.yaml")},
		{in(".git"), in(".git/d_test.yaml")},
	} {
		if got, err := Find(tt.paths...); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%v: got %v, %v, want %v", tt.paths, got, err, tt.want)
		}
	}
	want := "finding tests: no file below " + dir + "/empty has a name that ends in _test.yaml"
	if got, err := Find(in("a", "empty")...); got != nil || err == nil || err.Error() != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
}
