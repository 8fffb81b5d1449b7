package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"weir/internal/testenv"
)

// others are what commands of the READMEs do to a cluster's own installation of
// Contour or Envoy Gateway, which needs one.
var others = []string{
	"kubectl edit configmap contour --namespace projectcontour",
	"kubectl rollout restart deployment contour --namespace projectcontour",
	"kubectl rollout restart deployment envoy-gateway --namespace envoy-gateway-system",
}

// TestKubectlCommands holds the commands in each README.md of the examples to
// manifests that other tests check.
func TestKubectlCommands(t *testing.T) {
	readmes := testenv.Must(filepath.Glob("../../../examples/*/README.md"))(t)
	readmes = append(readmes, "../../../docs/at-3am.md")
	seen := 0
	for _, readme := range readmes {
		for _, found := range regexp.MustCompile(`(?m)^ {4}(kubectl .*)$`).FindAllStringSubmatch(readFile(t, readme), -1) {
			seen++
			if command := found[1]; !slices.Contains(others, command) {
				checkKubectl(t, command)
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d commands were found", seen)
	}
}

func checkKubectl(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	switch rest := words[2:]; words[1] {
	case "apply":
		for i := 0; i+1 < len(rest); i += 2 {
			path := strings.TrimPrefix(rest[i+1], "examples/")
			switch rest[i] {
			case "-k":
				if !slices.Contains(kustomizations, "../../../examples/"+path) {
					t.Errorf("%s: TestKustomizationsAreWhole does not build it", command)
				}
			case "-f":
				if !slices.Contains(files(t), "../../../examples/"+path) {
					t.Errorf("%s: TestManifestsHaveTheirTypes does not read it", command)
				}
			default:
				t.Errorf("%s: unknown flag", command)
			}
		}
	case "port-forward":
		name, isDeployment := strings.CutPrefix(rest[0], "deployment/")
		named := func(d *appsv1.Deployment) bool { return d.Name == name }
		if !isDeployment || !slices.ContainsFunc(build(t, "../../../examples/kubernetes").deployments, named) {
			t.Errorf("%s: there is no such Deployment", command)
		}
		if !strings.Contains(readFile(t, "../../../docs/settings.md"), "|`DEBUG_PORT`|`"+rest[1]+"`|") {
			t.Errorf("%s: this is not the debug port", command)
		}
	default:
		t.Errorf("%s is not checked", command)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text := testenv.Must(os.ReadFile(name))(t)
	return string(text)
}
