// Package check checks the files for Kubernetes. It contains only tests. It is a module of its own, so that the
// types of Kubernetes are no dependency of the service.
package check

import (
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// monitor is the part of a ServiceMonitor that we use. The Prometheus operator is no dependency.
type monitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		JobLabel  string               `json:"jobLabel"`
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string          `json:"port"`
			Path     string          `json:"path"`
			Interval metav1.Duration `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// promRule is a PrometheusRule. Its spec is a file of rules of Prometheus.
type promRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              map[string]any `json:"spec"`
}

// workload is what a Deployment and a StatefulSet have in common.
type workload struct {
	where    string // kind and name
	replicas int32
	selector *metav1.LabelSelector
	pod      corev1.PodTemplateSpec
	claims   []string // names of volumeClaimTemplates
}

// objects are what a kustomization describes.
type objects struct {
	kinds     map[string]int // how many of each kind
	workloads []workload
	services  map[string]*corev1.Service
	keys      map[string]map[string]string // values of ConfigMaps and Secrets by name and key
	ingresses []*networkingv1.Ingress
	policies  []*networkingv1.NetworkPolicy
	budgets   []*policyv1.PodDisruptionBudget
	scalers   []*autoscalingv2.HorizontalPodAutoscaler
	monitors  []*monitor
	rules     []*promRule
}

// newDecoder returns a decoder that refuses fields which the types of Kubernetes do not have, or given twice.
func newDecoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, autoscalingv2.AddToScheme, corev1.AddToScheme,
		networkingv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// add decodes one object from YAML.
func (o *objects) add(t *testing.T, d runtime.Decoder, text string) {
	t.Helper()
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(text), &meta); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	var object any
	var err error
	switch meta.APIVersion + "/" + meta.Kind {
	case "monitoring.coreos.com/v1/ServiceMonitor":
		object = new(monitor)
		err = yaml.UnmarshalStrict([]byte(text), object)
	case "monitoring.coreos.com/v1/PrometheusRule":
		object = new(promRule)
		err = yaml.UnmarshalStrict([]byte(text), object)
	default:
		object, _, err = d.Decode([]byte(text), nil, nil)
	}
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	o.kinds[meta.Kind]++
	switch v := object.(type) {
	case *appsv1.Deployment:
		o.workloads = append(o.workloads, workload{where: "Deployment " + v.Name, replicas: *v.Spec.Replicas,
			selector: v.Spec.Selector, pod: v.Spec.Template})
	case *appsv1.StatefulSet:
		w := workload{where: "StatefulSet " + v.Name, replicas: *v.Spec.Replicas,
			selector: v.Spec.Selector, pod: v.Spec.Template}
		for _, c := range v.Spec.VolumeClaimTemplates {
			w.claims = append(w.claims, c.Name)
		}
		o.workloads = append(o.workloads, w)
	case *corev1.Service:
		o.services[v.Name] = v
	case *corev1.ConfigMap:
		o.keys["ConfigMap "+v.Name] = v.Data
	case *corev1.Secret:
		values := v.StringData
		if values == nil {
			values = map[string]string{}
		}
		for key, value := range v.Data {
			values[key] = string(value)
		}
		o.keys["Secret "+v.Name] = values
	case *networkingv1.Ingress:
		o.ingresses = append(o.ingresses, v)
	case *networkingv1.NetworkPolicy:
		o.policies = append(o.policies, v)
	case *policyv1.PodDisruptionBudget:
		o.budgets = append(o.budgets, v)
	case *autoscalingv2.HorizontalPodAutoscaler:
		o.scalers = append(o.scalers, v)
	case *monitor:
		o.monitors = append(o.monitors, v)
	case *promRule:
		o.rules = append(o.rules, v)
	default:
		t.Fatalf("the kind %s is not known", meta.Kind)
	}
}

// build returns what the kustomization in a directory describes, built as kubectl does, with the Secrets that
// the operator makes.
func build(t *testing.T, dir string) *objects {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	o := &objects{kinds: map[string]int{}, services: map[string]*corev1.Service{}, keys: map[string]map[string]string{}}
	d := newDecoder(t)
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		o.add(t, d, string(text))
	}
	for text := range strings.SplitSeq(read(t, "../kubernetes/base/secrets.sample.yaml"), "\n---\n") {
		o.add(t, d, text)
	}
	return o
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
