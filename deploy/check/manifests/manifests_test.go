// Package manifests compares the manifests of the examples with the types and
// schemas of Kubernetes, Istio, Envoy Gateway and Contour. The module is one of its
// own, so that their dependencies are not the server's.
package manifests

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
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

// TestManifestsHaveTheirTypes decodes each file of the examples but the rules,
// which Weir's own tests load.
func TestManifestsHaveTheirTypes(t *testing.T) {
	for _, file := range files(t) {
		t.Run(file, func(t *testing.T) {
			text := testenv.Must(os.ReadFile(file))(t)
			switch {
			case filepath.Base(file) == "kustomization.yaml": // TestKustomizationsAreWhole
			case file == "../../../examples/contour/contour.yaml":
				parameters, err := contourconfig.Parse(bytes.NewReader(text))
				if err == nil {
					err = parameters.Validate()
				}
				if err != nil {
					t.Error(err)
				}
			default:
				for _, document := range documents(text) {
					decode(t, document)
				}
			}
		})
	}
}

// files are the YAML files of the examples for Kubernetes.
func files(t *testing.T) (files []string) {
	t.Helper()
	for _, example := range []string{"../../../examples/istio", "../../../examples/envoy-gateway", "../../../examples/kubernetes", "../../../examples/contour"} {
		err := filepath.WalkDir(example, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.Name() == "rules":
				return fs.SkipDir
			case strings.HasSuffix(path, ".yaml"):
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestEnvoyGatewayRunsWeir reads what Envoy Gateway reads of its ConfigMap.
func TestEnvoyGatewayRunsWeir(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../../examples/envoy-gateway/config.yaml"))(t)
	data := decode(t, text).(*corev1.ConfigMap).Data["envoy-gateway.yaml"]
	config := decode(t, []byte(data)).(*gateway.EnvoyGateway)
	if image := *config.Provider.Kubernetes.RateLimitDeployment.Container.Image; !strings.Contains(image, "/weir:") {
		t.Errorf("the image is %s", image)
	}
	if config.RateLimit.Backend.Type != gateway.RedisBackendType || *config.RateLimit.Backend.Redis.URL == "" {
		t.Errorf("there is no Redis: %+v", config.RateLimit.Backend)
	}
}

// kustomizations are the directories that `kubectl apply -k` applies.
var kustomizations = []string{"../../../examples/istio", "../../../examples/kubernetes", "../../../examples/contour"}

// TestKustomizationsAreWhole builds them, and follows the references in them.
func TestKustomizationsAreWhole(t *testing.T) {
	for _, dir := range kustomizations {
		t.Run(filepath.Base(dir), func(t *testing.T) { build(t, dir).check(t) })
	}
}

// build returns what `kubectl apply -k` applies.
func build(t *testing.T, dir string) *set {
	t.Helper()
	built := testenv.Must(krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir))(t)
	s := new(set)
	for _, resource := range built.Resources() {
		text := testenv.Must(resource.AsYAML())(t)
		s.add(decode(t, text))
	}
	return s
}

// set is what is applied together.
type set struct {
	deployments []*appsv1.Deployment
	services    []*corev1.Service
	configs     map[string]*corev1.ConfigMap
	budgets     []*policyv1.PodDisruptionBudget
	scalers     []*autoscalingv2.HorizontalPodAutoscaler
	policies    []*networkingv1.NetworkPolicy
	monitors    []*monitoringv1.ServiceMonitor
	elsewhere   []string // ConfigMaps that are there already
}

func (s *set) add(object any) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		s.deployments = append(s.deployments, o)
	case *corev1.Service:
		s.services = append(s.services, o)
	case *corev1.ConfigMap:
		if s.configs == nil {
			s.configs = map[string]*corev1.ConfigMap{}
		}
		s.configs[o.Namespace+"/"+o.Name] = o
	case *policyv1.PodDisruptionBudget:
		s.budgets = append(s.budgets, o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		s.scalers = append(s.scalers, o)
	case *networkingv1.NetworkPolicy:
		s.policies = append(s.policies, o)
	case *monitoringv1.ServiceMonitor:
		s.monitors = append(s.monitors, o)
	}
}

func (s *set) check(t *testing.T) {
	t.Helper()
	weir := false
	for _, d := range s.deployments {
		image := d.Spec.Template.Spec.Containers[0].Image
		weir = weir || strings.Contains(image, "/weir:") || strings.Contains(image, "/weir@")
		s.checkDeployment(t, d)
	}
	if !weir {
		t.Error("no Deployment runs Weir")
	}
	for _, service := range s.services {
		pods := s.selected(&metav1.LabelSelector{MatchLabels: service.Spec.Selector}, service.Namespace)
		for _, port := range service.Spec.Ports {
			target := port.TargetPort
			if target == (intstr.IntOrString{}) {
				target = intstr.FromInt32(port.Port)
			}
			if len(pods) != 1 || !hasPort(pods[0], target) {
				t.Errorf("Service %s leads to no port %s of one Deployment", service.Name, target.String())
			}
		}
	}
	for _, b := range s.budgets {
		if len(s.selected(b.Spec.Selector, b.Namespace)) != 1 {
			t.Errorf("PodDisruptionBudget %s is not that of one Deployment", b.Name)
		}
	}
	for _, h := range s.scalers {
		named := func(d *appsv1.Deployment) bool {
			return d.Name == h.Spec.ScaleTargetRef.Name && d.Namespace == h.Namespace && d.Spec.Replicas == nil
		}
		if !slices.ContainsFunc(s.deployments, named) {
			t.Errorf("HorizontalPodAutoscaler %s scales no Deployment that leaves its replicas open", h.Name)
		}
	}
	s.checkMonitors(t)
	for _, p := range s.policies {
		pods := s.selected(&p.Spec.PodSelector, p.Namespace)
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				if len(pods) != 1 || !hasPort(pods[0], *port.Port) {
					t.Errorf("NetworkPolicy %s opens no port %s of one Deployment", p.Name, port.Port.String())
				}
			}
		}
	}
}

// checkMonitors looks whether each ServiceMonitor selects one Service, and a port of it.
func (s *set) checkMonitors(t *testing.T) {
	t.Helper()
	for _, m := range s.monitors {
		selector := testenv.Must(metav1.LabelSelectorAsSelector(&m.Spec.Selector))(t)
		selected := func(service *corev1.Service) bool {
			return selector.Matches(labels.Set(service.Labels)) && slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == m.Spec.Endpoints[0].Port })
		}
		if !slices.ContainsFunc(s.services, selected) {
			t.Errorf("ServiceMonitor %s selects no port of a Service", m.Name)
		}
	}
}

// checkDeployment looks whether its selector is right, its volumes are there
// and its probes ask ports that are open.
func (s *set) checkDeployment(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	if len(s.selected(d.Spec.Selector, d.Namespace)) != 1 {
		t.Errorf("Deployment %s does not select its own pods only", d.Name)
	}
	pod := d.Spec.Template.Spec
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap == nil || slices.Contains(s.elsewhere, v.ConfigMap.Name) {
			continue // Secrets are there already, too
		}
		if config := s.configs[d.Namespace+"/"+v.ConfigMap.Name]; config == nil || len(config.Data) == 0 {
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

// selected are the Deployments whose pods a selector finds.
func (s *set) selected(selector *metav1.LabelSelector, namespace string) (found []*appsv1.Deployment) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || parsed.Empty() {
		return nil
	}
	for _, d := range s.deployments {
		if d.Namespace == namespace && parsed.Matches(labels.Set(d.Spec.Template.Labels)) {
			found = append(found, d)
		}
	}
	return found
}

// hasPort reports whether a container of the pods has a port of that name or number.
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

// TestContourReadsItsDomain compares the two places that name it.
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
	if rules, contour := domain("../../../examples/contour/rules/contour.yaml"), domain("../../../examples/contour/contour.yaml"); rules != contour {
		t.Errorf("the rules are for %q, Contour asks for %q", rules, contour)
	}
}
