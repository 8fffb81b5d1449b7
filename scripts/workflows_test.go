package scripts

import (
	"slices"
	"testing"

	"gopkg.in/yaml.v3"

	"weir/internal/testenv"
)

// TestReleasesAreTested holds the workflow of releases to its order: nothing is
// published before all tests passed, and no image without the archives.
func TestReleasesAreTested(t *testing.T) {
	type workflow struct {
		On   map[string]any `yaml:"on"`
		Jobs map[string]struct {
			Uses  string   `yaml:"uses"`
			Needs []string `yaml:"needs"`
		} `yaml:"jobs"`
	}
	parse := func(file string) (w workflow) {
		testenv.OK(t, yaml.Unmarshal([]byte(read(t, file)), &w))
		return w
	}
	jobs := parse("../.github/workflows/release.yml").Jobs
	const tests = "./.github/workflows/test.yml"
	if jobs["test"].Uses != tests {
		t.Errorf("the job test uses %q, want %s", jobs["test"].Uses, tests)
	}
	if _, callable := parse("../.github/workflows/test.yml").On["workflow_call"]; !callable {
		t.Error("test.yml has no workflow_call, by which others use it")
	}
	for job, needs := range map[string]string{"archives": "test", "image": "archives"} {
		if !slices.Contains(jobs[job].Needs, needs) {
			t.Errorf("%s needs %v, want %s", job, jobs[job].Needs, needs)
		}
	}
	if len(jobs) != 3 {
		t.Errorf("there are %d jobs, of which this test knows 3", len(jobs))
	}
}
