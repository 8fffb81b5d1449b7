package limittest

import (
	"path/filepath"
	"testing"

	"weir/internal/testenv"
)

// FuzzDecode decodes arbitrary bytes. Each file must be valid or have problems, and the
// tests of a valid file must run.
func FuzzDecode(f *testing.F) {
	for _, data := range testenv.ReadAll(f, "testdata/*_test.yaml", "testdata/bad/*.yaml", "../../../config/*_test.yaml") {
		f.Add(data)
	}
	sound := testenv.Must(Load("testdata/every_field_test.yaml", Options{}))(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := new(decoder)
		d.File = filepath.Join(t.TempDir(), "fuzz_test.yaml")
		root := d.Parse(data, "rules and tests")
		if root == nil {
			if len(d.Problems) == 0 {
				t.Fatal("neither a file nor a problem")
			}
			return
		}
		_, tests := d.file(root)
		sent := 0
		for _, test := range tests {
			for _, s := range test.steps {
				sent += s.send
			}
		}
		if len(d.Problems) > 0 || sent > 1000 {
			return
		}
		file := File{Name: d.File, tree: sound.tree, tests: tests}
		for i := range tests {
			testenv.Must(file.run(t.Context(), &tests[i]))(t)
		}
	})
}
