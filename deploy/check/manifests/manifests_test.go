// Package manifests compares the manifests of the examples with the types and
// schemas of Kubernetes, Istio, Envoy Gateway and Contour. It is in a separate module,
// so that the server does not have these dependencies.
package manifests

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gateway "github.com/envoyproxy/gateway/api/v1alpha1"
	contourconfig "github.com/projectcontour/contour/pkg/config"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"weir/internal/testenv"
)

// TestManifestsHaveTheirTypes decodes each file of the examples except the rules, which
// Weir's own tests load.
func TestManifestsHaveTheirTypes(t *testing.T) {
	for _, file := range files(t) {
		t.Run(file, func(t *testing.T) {
			text := testenv.Must(os.ReadFile(file))(t)
			switch {
			case filepath.Base(file) == "kustomization.yaml": // TestKustomizationsAreWhole
			case file == "../../../examples/contour/contour.yaml":
				parameters := testenv.Must(contourconfig.Parse(bytes.NewReader(text)))(t)
				testenv.OK(t, parameters.Validate())
			default:
				decodeAll(t, string(text))
			}
		})
	}
}

// files returns the YAML files of the examples for Kubernetes.
func files(t *testing.T) (files []string) {
	t.Helper()
	for _, example := range []string{"../../../examples/istio", "../../../examples/envoy-gateway", "../../../examples/kubernetes", "../../../examples/contour"} {
		testenv.OK(t, filepath.WalkDir(example, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.Name() == "rules":
				return fs.SkipDir
			case strings.HasSuffix(path, ".yaml"):
				files = append(files, path)
			}
			return nil
		}))
	}
	return files
}

// TestEnvoyGatewayRunsWeir reads the ConfigMap as Envoy Gateway does.
func TestEnvoyGatewayRunsWeir(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../../examples/envoy-gateway/config.yaml"))(t)
	data := decode(t, text).(*corev1.ConfigMap).Data["envoy-gateway.yaml"]
	config := decode(t, []byte(data)).(*gateway.EnvoyGateway)
	testenv.Contains(t, *config.Provider.Kubernetes.RateLimitDeployment.Container.Image, "/weir:")
	if config.RateLimit.Backend.Type != gateway.RedisBackendType || *config.RateLimit.Backend.Redis.URL == "" {
		t.Errorf("there is no Redis: %+v", config.RateLimit.Backend)
	}
}

// kustomizations are the directories for `kubectl apply -k`.
var kustomizations = []string{"../../../examples/istio", "../../../examples/kubernetes", "../../../examples/contour"}

// TestKustomizationsAreWhole builds the kustomizations, and follows the references in them.
func TestKustomizationsAreWhole(t *testing.T) {
	for _, dir := range kustomizations {
		t.Run(filepath.Base(dir), func(t *testing.T) { build(t, dir).check(t) })
	}
}

// build returns the objects that `kubectl apply -k` applies.
func build(t *testing.T, dir string) set {
	t.Helper()
	built := testenv.Must(krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir))(t)
	return decodeAll(t, string(testenv.Must(built.AsYaml())(t)))
}

// set is a set of objects that are applied together.
type set []any

// decodeAll returns the objects in manifests.
func decodeAll(t *testing.T, manifests string) (s set) {
	t.Helper()
	for _, document := range documents([]byte(manifests)) {
		s = append(s, decode(t, document))
	}
	return s
}

// all returns the objects of a type.
func all[T any](s set) (found []T) {
	for _, object := range s {
		if o, is := object.(T); is {
			found = append(found, o)
		}
	}
	return found
}

// check follows the references in a set: selectors must find the pods of one Deployment,
// ports must be open, and the ConfigMaps of volumes must be in the set or in elsewhere.
func (s set) check(t *testing.T, elsewhere ...string) {
	t.Helper()
	weir := false
	for _, object := range s {
		switch o := object.(type) {
		case *appsv1.Deployment:
			image := o.Spec.Template.Spec.Containers[0].Image
			weir = weir || strings.Contains(image, "/weir:") || strings.Contains(image, "/weir@")
			s.leadsTo(t, o, o.Namespace, o.Spec.Selector)
			s.checkPods(t, o, elsewhere)
		case *corev1.Service:
			for _, port := range o.Spec.Ports {
				target := port.TargetPort
				if target == (intstr.IntOrString{}) {
					target = intstr.FromInt32(port.Port)
				}
				s.leadsTo(t, o, o.Namespace, &metav1.LabelSelector{MatchLabels: o.Spec.Selector}, target)
			}
		case *policyv1.PodDisruptionBudget:
			s.leadsTo(t, o, o.Namespace, o.Spec.Selector)
		case *autoscalingv2.HorizontalPodAutoscaler:
			named := func(d *appsv1.Deployment) bool {
				return d.Name == o.Spec.ScaleTargetRef.Name && d.Namespace == o.Namespace && d.Spec.Replicas == nil
			}
			if !slices.ContainsFunc(all[*appsv1.Deployment](s), named) {
				t.Errorf("HorizontalPodAutoscaler %s scales no Deployment that leaves its replicas open", o.Name)
			}
		case *networkingv1.NetworkPolicy:
			for _, rule := range o.Spec.Ingress {
				for _, port := range rule.Ports {
					s.leadsTo(t, o, o.Namespace, &o.Spec.PodSelector, *port.Port)
				}
			}
		case *monitoringv1.ServiceMonitor:
			selector := testenv.Must(metav1.LabelSelectorAsSelector(&o.Spec.Selector))(t)
			selected := func(service *corev1.Service) bool {
				return selector.Matches(labels.Set(service.Labels)) && slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == o.Spec.Endpoints[0].Port })
			}
			if !slices.ContainsFunc(all[*corev1.Service](s), selected) {
				t.Errorf("ServiceMonitor %s selects no port of a Service", o.Name)
			}
		}
	}
	if !weir {
		t.Error("no Deployment runs Weir")
	}
}

// leadsTo checks that an object selects the pods of exactly one Deployment, and that they
// have the ports.
func (s set) leadsTo(t *testing.T, object any, namespace string, selector *metav1.LabelSelector, ports ...intstr.IntOrString) {
	t.Helper()
	parsed := testenv.Must(metav1.LabelSelectorAsSelector(selector))(t)
	found := slices.DeleteFunc(all[*appsv1.Deployment](s), func(d *appsv1.Deployment) bool {
		return d.Namespace != namespace || !parsed.Matches(labels.Set(d.Spec.Template.Labels))
	})
	if len(found) != 1 || parsed.Empty() {
		t.Errorf("%T selects the pods of %d Deployments: %v", object, len(found), selector)
		return
	}
	for _, port := range ports {
		if !hasPort(found[0], port) {
			t.Errorf("%T leads to port %s, which the pods do not have", object, port.String())
		}
	}
}

// checkPods checks that the volumes of a Deployment exist, and that its probes use open
// ports.
func (s set) checkPods(t *testing.T, d *appsv1.Deployment, elsewhere []string) {
	t.Helper()
	pod, volumes := d.Spec.Template.Spec, map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap == nil || slices.Contains(elsewhere, v.ConfigMap.Name) {
			continue // exists in the cluster already, as Secrets do
		}
		mounted := func(c *corev1.ConfigMap) bool {
			return c.Namespace == d.Namespace && c.Name == v.ConfigMap.Name && len(c.Data) > 0
		}
		if !slices.ContainsFunc(all[*corev1.ConfigMap](s), mounted) {
			t.Errorf("Deployment %s mounts ConfigMap %s, which is not there or empty", d.Name, v.ConfigMap.Name)
		}
	}
	for _, c := range pod.Containers {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("Deployment %s mounts volume %s, which it has not", d.Name, m.Name)
			}
		}
		for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
			switch {
			case probe == nil:
			case probe.HTTPGet != nil && !hasPort(d, probe.HTTPGet.Port), probe.TCPSocket != nil && !hasPort(d, probe.TCPSocket.Port):
				t.Errorf("Deployment %s is probed at a port that it has not", d.Name)
			}
		}
	}
}

// hasPort reports whether a container of the pods has a port with the name or number.
func hasPort(d *appsv1.Deployment, port intstr.IntOrString) bool {
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == port.StrVal && p.Name != "" || p.ContainerPort == port.IntVal {
				return true
			}
		}
	}
	return false
}

// TestContourReadsItsDomain compares the domain of Contour with the domain of the rules.
func TestContourReadsItsDomain(t *testing.T) {
	domain := func(file string) string {
		t.Helper()
		text := testenv.Must(os.ReadFile(file))(t)
		var content struct {
			Domain           string
			RateLimitService struct{ Domain string }
		}
		testenv.OK(t, yaml.Unmarshal(text, &content))
		return content.Domain + content.RateLimitService.Domain
	}
	testenv.Equal(t, domain("../../../examples/contour/rules/contour.yaml"), domain("../../../examples/contour/contour.yaml"), "domain of the rules, and for which Contour asks")
}

// others are commands of the READMEs that change a cluster's own installation of Contour
// or Envoy Gateway. They cannot be tested without such an installation.
var others = []string{
	"kubectl apply -f examples/ai-gateway/quota-policy.yaml", // see TestAIGateway
	"kubectl edit configmap contour --namespace projectcontour",
	"kubectl rollout restart deployment contour --namespace projectcontour",
	"kubectl rollout restart deployment envoy-gateway --namespace envoy-gateway-system",
}

// TestKubectlCommands checks that the commands in each README.md of the examples use
// manifests that other tests check.
func TestKubectlCommands(t *testing.T) {
	readmes := testenv.Must(filepath.Glob("../../../examples/*/README.md"))(t)
	applied := append(files(t), kustomizations...)
	seen := 0
	for _, readme := range append(readmes, "../../../docs/at-3am.md") {
		for _, found := range regexp.MustCompile(`(?m)^ {4}(kubectl .*)$`).FindAllStringSubmatch(testenv.Read(t, readme), -1) {
			seen++
			switch words := strings.Fields(found[1]); {
			case slices.Contains(others, found[1]):
			case words[1] == "apply":
				for i, word := range words[2:] {
					if is := word == "-k" || word == "-f"; is != (i%2 == 0) || !is && !slices.Contains(applied, "../../../"+word) {
						t.Errorf("%s: no other test reads %s", found[1], word)
					}
				}
			case words[1] == "port-forward":
				named := func(d *appsv1.Deployment) bool { return "deployment/"+d.Name == words[2] }
				if !slices.ContainsFunc(all[*appsv1.Deployment](build(t, "../../../examples/kubernetes")), named) {
					t.Errorf("%s: there is no such Deployment", found[1])
				}
				testenv.Contains(t, testenv.Read(t, "../../../docs/settings.md"), "|`DEBUG_PORT`|`"+words[3]+"`|")
			default:
				t.Errorf("%s is not checked", found[1])
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d commands were found", seen)
	}
}
