package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	gateway "github.com/envoyproxy/gateway/api/v1alpha1"
	contour "github.com/projectcontour/contour/apis/projectcontour/v1"
	contouralpha "github.com/projectcontour/contour/apis/projectcontour/v1alpha1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil" // its module has the custom resource definitions
	"google.golang.org/protobuf/encoding/protojson"
	istio "istio.io/api/networking/v1alpha3"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"weir/internal/testenv"
)

// types are the types that manifests may have, by apiVersion and kind.
var types = map[string]func() any{
	"v1 ConfigMap":                                        func() any { return new(corev1.ConfigMap) },
	"v1 Namespace":                                        func() any { return new(corev1.Namespace) },
	"v1 ServiceAccount":                                   func() any { return new(corev1.ServiceAccount) },
	"v1 Service":                                          func() any { return new(corev1.Service) },
	"apps/v1 Deployment":                                  func() any { return new(appsv1.Deployment) },
	"policy/v1 PodDisruptionBudget":                       func() any { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1 NetworkPolicy":                  func() any { return new(networkingv1.NetworkPolicy) },
	"autoscaling/v2 HorizontalPodAutoscaler":              func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"gateway.networking.k8s.io/v1 GatewayClass":           func() any { return new(gatewayapi.GatewayClass) },
	"gateway.networking.k8s.io/v1 Gateway":                func() any { return new(gatewayapi.Gateway) },
	"gateway.networking.k8s.io/v1 HTTPRoute":              func() any { return new(gatewayapi.HTTPRoute) },
	"gateway.envoyproxy.io/v1alpha1 BackendTrafficPolicy": func() any { return new(gateway.BackendTrafficPolicy) },
	"gateway.envoyproxy.io/v1alpha1 EnvoyGateway":         func() any { return new(gateway.EnvoyGateway) },
	"gateway.envoyproxy.io/v1alpha1 EnvoyPatchPolicy":     func() any { return new(gateway.EnvoyPatchPolicy) },
	"projectcontour.io/v1alpha1 ExtensionService":         func() any { return new(contouralpha.ExtensionService) },
	"projectcontour.io/v1 HTTPProxy":                      func() any { return new(contour.HTTPProxy) },
	"monitoring.coreos.com/v1 ServiceMonitor":             func() any { return new(monitoringv1.ServiceMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule":             func() any { return new(monitoringv1.PrometheusRule) },
	"networking.istio.io/v1alpha3 EnvoyFilter":            func() any { return new(envoyFilter) },
}

// envoyFilter is an EnvoyFilter that refuses unknown fields. The type in Istio's client
// ignores them.
type envoyFilter struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              envoyFilterSpec `json:"spec"`
}

type envoyFilterSpec struct{ istio.EnvoyFilter }

func (s *envoyFilterSpec) UnmarshalJSON(data []byte) error {
	return protojson.Unmarshal(data, &s.EnvoyFilter)
}

// decode decodes a manifest strictly into its type. If the type has a custom resource
// definition, decode also checks the manifest against its schema.
func decode(t *testing.T, manifest []byte) any {
	t.Helper()
	schemas := testenv.Must(readSchemas())(t)
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(manifest, &head); err != nil {
		t.Fatalf("%v in:\n%s", err, manifest)
	}
	name := head.APIVersion + " " + head.Kind
	make, known := types[name]
	if !known {
		t.Fatalf("no type is known for %s", name)
	}
	object := make()
	text, err := yaml.YAMLToJSONStrict(manifest)
	if err != nil {
		t.Fatalf("%s: %v in:\n%s", name, err, manifest)
	}
	problems, err := kjson.UnmarshalStrict(text, object) // case-sensitive
	if err := errors.Join(append(problems, err)...); err != nil {
		t.Errorf("%s: %v in:\n%s", name, err, manifest)
	}
	if schema := schemas[name]; schema != nil {
		var content any
		testenv.OK(t, yaml.Unmarshal(manifest, &content))
		if err := validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(content).AsError(); err != nil {
			t.Errorf("%s: %v in:\n%s", name, err, manifest)
		}
	} else if strings.Contains(head.APIVersion, ".io/") && !strings.Contains(head.APIVersion, ".k8s.io/") && head.Kind != "EnvoyGateway" {
		t.Errorf("no custom resource definition is known for %s", name)
	}
	return object
}

// definitions lists the files of custom resource definitions, by module.
var definitions = map[string][]string{
	"istio.io/api":                      {"kubernetes/customresourcedefinitions.gen.yaml"},
	"github.com/projectcontour/contour": {"examples/contour/01-crds.yaml"},
	"github.com/envoyproxy/gateway": {
		"charts/gateway-crds-helm/templates/generated/gateway.envoyproxy.io_backendtrafficpolicies.yaml",
		"charts/gateway-crds-helm/templates/generated/gateway.envoyproxy.io_envoypatchpolicies.yaml",
	},
	"github.com/prometheus-operator/prometheus-operator": {
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml", "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
}

// readSchemas reads the schemas of custom resources, by apiVersion and kind, once.
var readSchemas = sync.OnceValues(func() (map[string]*spec.Schema, error) {
	schemas := map[string]*spec.Schema{}
	for module, files := range definitions {
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			return nil, fmt.Errorf("looking for module %s: %w", module, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), file))
			if err != nil {
				return nil, err
			}
			for _, document := range documents(text) {
				var definition definition
				if err := yaml.Unmarshal(document, &definition); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
				for _, version := range definition.Spec.Versions {
					schemas[fmt.Sprintf("%s/%s %s", definition.Spec.Group, version.Name, definition.Spec.Names.Kind)] = version.Schema.OpenAPIV3Schema
				}
			}
		}
	}
	return schemas, nil
})

// definition is a custom resource definition.
type definition struct {
	Spec struct {
		Group    string
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema *spec.Schema
			}
		}
	}
}

// documents splits a YAML file into its documents, and omits templates of Helm.
func documents(text []byte) (documents [][]byte) {
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "{{") {
			lines = append(lines, line)
		}
	}
	for _, d := range strings.Split("\n"+strings.Join(lines, ""), "\n---") {
		var content map[string]any
		if yaml.Unmarshal([]byte(d), &content) != nil || len(content) > 0 {
			documents = append(documents, []byte(d))
		}
	}
	return documents
}

// TestChartSchemaHasThatOfRules checks that the end of the chart's schema equals
// docs/rules.schema.json, except for textsOnly. Helm reads no other file.
func TestChartSchemaHasThatOfRules(t *testing.T) {
	var rules struct {
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	var full map[string]json.RawMessage
	text := []byte(testenv.Read(t, "../../../docs/rules.schema.json"))
	testenv.OK(t, errors.Join(json.Unmarshal(text, &rules), json.Unmarshal(text, &full)))
	delete(full, "$schema")
	delete(full, "definitions")
	root := testenv.Must(json.Marshal(full))(t)
	definitions := []string{`    "rules": ` + textsOnly(t, root)}
	for _, name := range slices.Sorted(maps.Keys(rules.Definitions)) {
		definitions = append(definitions, fmt.Sprintf("    %q: %s", name, textsOnly(t, rules.Definitions[name])))
	}
	want := strings.Join(definitions, ",\n") + "\n  }\n}\n"
	file := filepath.Join(chart, "values.schema.json")
	own, _, found := strings.Cut(testenv.Read(t, file), "    \"rules\": {\"")
	schema := own + want
	if !found {
		t.Fatal("the chart's schema has no definition of rules")
	}
	testenv.Golden(t, file, schema)
}

// textsOnly returns a schema of rules that refuses numbers and booleans where Weir reads
// them as text. Helm converts them before the chart gets them: 01234 would be 668, 1.10
// would be 1.1, and off would be false.
func textsOnly(t *testing.T, schema []byte) string {
	t.Helper()
	var short bytes.Buffer
	testenv.OK(t, json.Compact(&short, schema))
	return regexp.MustCompile(`"type":\[[^\]]*"string"[^\]]*\]`).ReplaceAllStringFunc(short.String(), func(types string) string {
		return strings.NewReplacer(`,"number"`, "", `"number",`, "", `,"boolean"`, "", `"boolean",`, "").Replace(types)
	})
}
