package descriptors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestLoadReportsEveryProblem compares the problems of each file and directory in testdata/bad
// with testdata/bad.txt, which -update writes.
func TestLoadReportsEveryProblem(t *testing.T) {
	const dir = "testdata/bad"
	entries := testenv.Must(os.ReadDir(dir))(t)
	var got strings.Builder
	for _, entry := range entries {
		files := readBelow(t, dir, filepath.Join(dir, entry.Name()))
		tree, err := Load(files, Options{MergeDomains: strings.HasPrefix(entry.Name(), "merged_")})
		if tree != nil || err == nil {
			t.Fatalf("%s: a bad file was loaded", entry.Name())
		}
		if !strings.HasPrefix(err.Error(), entry.Name()) {
			t.Errorf("%s is not named in %v", entry.Name(), err)
		}
		fmt.Fprintln(&got, err)
	}
	testenv.Golden(t, "testdata/bad.txt", got.String())
}

// TestEveryFieldIsRead gives each field a list of lists, which no field accepts. If there is no
// problem, the field is known but never read.
func TestEveryFieldIsRead(t *testing.T) {
	const list = "[[1]]"
	for field, document := range fieldsWith(list) {
		_, err := Load([]File{{"rules.yaml", []byte(document)}}, Options{})
		if err == nil || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "unknown field") {
			t.Errorf("the field %s is not read: %s of it has the error %v", field, list, err)
		}
	}
}

// fieldsWith returns, by field, a document in which the field has the given value.
func fieldsWith(value string) map[string]string {
	documents := map[string]string{}
	for _, field := range format.limit.names {
		documents["rate_limit."+field] = fmt.Sprintf("domain: d\ndescriptors:\n- key: k\n  rate_limit: {%s: %s}\n", field, value)
	}
	for _, field := range format.descriptor.names {
		documents["descriptors[0]."+field] = fmt.Sprintf("domain: d\ndescriptors:\n- {%s: %s}\n", field, value)
	}
	for _, field := range format.override.names {
		documents["override."+field] = fmt.Sprintf("domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 1}, override: {%s: %s}}\n", field, value)
	}
	for _, field := range format.file.names {
		documents[field] = fmt.Sprintf("%s: %s\n", field, value)
	}
	return documents
}
