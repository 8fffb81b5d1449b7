package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"

	"weir/internal/testenv"
)

// manifests reads the documents of a YAML file of the repository.
func manifests(t *testing.T, file string) []map[string]any {
	t.Helper()
	data := testenv.Must(os.ReadFile(filepath.Join(testenv.Repository(t), file)))(t)
	var docs []map[string]any
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc map[string]any
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return docs
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		docs = append(docs, doc)
	}
}

// environment reads the variables of the first container of a Deployment, each
// NAME=value.
func environment(t *testing.T, file, deployment string) []string {
	t.Helper()
	for _, doc := range manifests(t, file) {
		if doc["kind"] != "Deployment" || get(t, doc, "metadata")["name"] != deployment {
			continue
		}
		var env []string
		variables, _ := get(t, doc, "spec", "template", "spec", "containers", 0)["env"].([]any)
		for _, v := range variables {
			v := v.(map[string]any)
			env = append(env, v["name"].(string)+"="+v["value"].(string))
		}
		return env
	}
	t.Fatalf("%s has no Deployment %s", file, deployment)
	return nil
}
