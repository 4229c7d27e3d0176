package check

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/agentsignal/agentsignal/configs"
)

// endTime is what the service may take after shutdown.delay: 10 s each for the hand-over and the end.
const endTime = 20 * time.Second

// Each kustomization decodes strictly, its objects fit each other, and the service accepts its settings.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	whole := map[string]int{"Deployment": 1, "Service": 1, "ConfigMap": 1, "Secret": 2, "NetworkPolicy": 1, "Ingress": 1,
		"PodDisruptionBudget": 1, "HorizontalPodAutoscaler": 1, "ServiceMonitor": 1, "PrometheusRule": 1}
	prod := maps.Clone(whole)
	prod["NetworkPolicy"] = 2
	for _, c := range []struct {
		dir      string
		kinds    map[string]int
		replicas int32
		args     []string
		wait     int // redis.wait_replicas
	}{
		{"base", whole, 3, []string{"serve"}, 0},
		{"overlays/prod", prod, 3, []string{"serve"}, 1},
		{"overlays/dev", map[string]int{"Deployment": 1, "StatefulSet": 1, "Service": 2, "ConfigMap": 2, "Secret": 3,
			"NetworkPolicy": 3}, 1, []string{"serve", "--demo"}, 0},
	} {
		t.Run(c.dir, func(t *testing.T) {
			t.Parallel()
			o := build(t, filepath.Join("../kubernetes", c.dir))
			if !maps.Equal(o.kinds, c.kinds) {
				t.Errorf("there are %v, want %v", o.kinds, c.kinds)
			}
			for _, w := range o.workloads {
				o.checkPod(t, w)
				variables := o.environment(t, w)
				if w.where != "Deployment agentsignal" {
					continue
				}
				s := o.checkService(t, w, variables)
				if container := w.pod.Spec.Containers[0]; w.replicas != c.replicas || !slices.Equal(container.Args, c.args) ||
					s.Redis.WaitReplicas != c.wait || !s.Cluster {
					t.Errorf("%d pods of %v wait for %d replicas, cluster %t", w.replicas, container.Args, s.Redis.WaitReplicas, s.Cluster)
				}
			}
			o.checkNetwork(t)
			o.checkScaling(t)
			o.checkMonitoring(t)
		})
	}
}

// checkPod checks what holds for each pod: it has few rights, and what it names exists.
func (o *objects) checkPod(t *testing.T, w workload) {
	t.Helper()
	if !selects(t, w.selector, w.pod.Labels) {
		t.Errorf("%s: its selector does not fit its pods", w.where)
	}
	spec := w.pod.Spec
	if s := spec.SecurityContext; s == nil || !is(s.RunAsNonRoot, true) || s.SeccompProfile == nil ||
		!is(spec.AutomountServiceAccountToken, false) || !is(spec.EnableServiceLinks, false) {
		t.Errorf("%s: the pod has more rights or variables than it needs", w.where)
	}
	for _, c := range spec.TopologySpreadConstraints {
		if !selects(t, c.LabelSelector, w.pod.Labels) {
			t.Errorf("%s: it spreads other pods by %s", w.where, c.TopologyKey)
		}
	}
	if len(spec.Containers) != 1 || len(spec.InitContainers) != 0 {
		t.Fatalf("%s: it has not one container", w.where)
	}
	c := spec.Containers[0]
	if s := c.SecurityContext; s == nil || !is(s.ReadOnlyRootFilesystem, true) || !is(s.AllowPrivilegeEscalation, false) ||
		s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%s: the container has more rights than it needs", w.where)
	}
	if !slices.Contains(images(t), c.Image) {
		t.Errorf("%s: there is no image %s", w.where, c.Image)
	}
	volumes := slices.Clone(w.claims)
	for _, v := range spec.Volumes {
		volumes = append(volumes, v.Name)
		if s := v.Secret; s != nil && (o.keys["Secret "+s.SecretName] == nil || !is(s.DefaultMode, 0o440)) {
			t.Errorf("%s: no Secret %s, or others may read it", w.where, s.SecretName)
		}
		if m := v.ConfigMap; m != nil && o.keys["ConfigMap "+m.Name] == nil {
			t.Errorf("%s: no ConfigMap %s", w.where, m.Name)
		}
	}
	var mounted []string
	for _, m := range c.VolumeMounts {
		mounted = append(mounted, m.Name)
	}
	if slices.Sort(volumes); !slices.Equal(volumes, slices.Sorted(slices.Values(mounted))) {
		t.Errorf("%s has the volumes %v and mounts %v", w.where, volumes, mounted)
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if p == nil {
			continue
		}
		var port intstr.IntOrString
		switch {
		case p.HTTPGet != nil:
			port = p.HTTPGet.Port
		case p.TCPSocket != nil:
			port = p.TCPSocket.Port
		}
		if !w.hasPort(port) {
			t.Errorf("%s: a probe asks port %s", w.where, port.String())
		}
	}
}

// environment returns the variables of a container. Those whose source is missing fail the test.
func (o *objects) environment(t *testing.T, w workload) map[string]string {
	t.Helper()
	variables := map[string]string{}
	c := w.pod.Spec.Containers[0]
	for _, from := range c.EnvFrom {
		values, ok := o.keys["ConfigMap "+from.ConfigMapRef.Name]
		if !ok {
			t.Errorf("%s: no ConfigMap %s", w.where, from.ConfigMapRef.Name)
		}
		maps.Copy(variables, values)
	}
	for _, e := range c.Env {
		variables[e.Name] = e.Value
		if e.ValueFrom == nil {
			continue
		}
		ref := e.ValueFrom.SecretKeyRef
		value, ok := o.keys["Secret "+ref.Name][ref.Key]
		if !ok {
			t.Errorf("%s: no key %s in a Secret %s", w.where, ref.Key, ref.Name)
		}
		variables[e.Name] = value
	}
	return variables
}

// checkService checks the pods of the service, and returns the settings that their variables give.
func (o *objects) checkService(t *testing.T, w workload, variables map[string]string) configs.Config {
	t.Helper()
	spec := w.pod.Spec
	c := spec.Containers[0]
	mounts := map[string]corev1.VolumeSource{}
	for _, m := range c.VolumeMounts {
		at := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if at >= 0 {
			mounts[m.MountPath] = spec.Volumes[at].VolumeSource
		}
	}
	var environ []string
	for name, value := range variables {
		if setting, isFile := strings.CutSuffix(name, "_FILE"); isFile {
			secret := mounts[path.Dir(value)].Secret
			if secret == nil || o.keys["Secret "+secret.SecretName][path.Base(value)] == "" {
				t.Errorf("%s: no Secret has the file %s", name, value)
			}
			name, value = setting, "given"
		}
		environ = append(environ, name+"="+value)
	}
	s, err := configs.Load("", environ)
	if err != nil {
		t.Errorf("the settings are not valid: %v", err)
	}
	if mounts[path.Dir(s.DataDir)].EmptyDir == nil {
		t.Errorf("the data directory %s is not in a directory of the pod that it alone has", s.DataDir)
	}
	for port, addr := range map[string]string{"http": s.HTTP.Addr, "admin": s.HTTP.AdminAddr} {
		if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == port && addr == ":"+strconv.Itoa(int(p.ContainerPort))
		}) {
			t.Errorf("the port %s is not %s", port, addr)
		}
	}
	for probe, want := range map[*corev1.Probe]string{c.LivenessProbe: "/healthz", c.ReadinessProbe: "/readyz"} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != want {
			t.Errorf("a probe is not for %s: %v", want, probe)
		}
	}
	if s := spec.SecurityContext; !is(s.RunAsUser, 65532) || !is(s.FSGroup, 65532) {
		t.Error("the user is not that of the image")
	}
	need := time.Duration(s.Shutdown.Delay) + endTime
	if grace := spec.TerminationGracePeriodSeconds; grace == nil || time.Duration(*grace)*time.Second < need {
		t.Errorf("the end is cut off; it may take %s", need)
	}
	if len(spec.TopologySpreadConstraints) == 0 {
		t.Error("all pods may come onto one machine")
	}
	return s
}

// checkNetwork checks that Services, Ingresses and NetworkPolicies name pods and ports that exist.
func (o *objects) checkNetwork(t *testing.T) {
	t.Helper()
	for name, s := range o.services {
		pods := o.selected(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
		if len(pods) != 1 {
			t.Errorf("Service %s selects %d kinds of pods", name, len(pods))
		}
		for _, p := range s.Spec.Ports {
			for _, w := range pods {
				if !w.hasPort(p.TargetPort) {
					t.Errorf("Service %s: the pods have no port %s", name, p.TargetPort.String())
				}
			}
		}
	}
	for _, i := range o.ingresses {
		for n, rule := range i.Spec.Rules {
			if len(i.Spec.TLS) <= n || !slices.Contains(i.Spec.TLS[n].Hosts, rule.Host) {
				t.Errorf("Ingress %s has no certificate for %s", i.Name, rule.Host)
			}
			for _, p := range rule.HTTP.Paths {
				b := p.Backend.Service
				if s := o.services[b.Name]; s == nil || b.Port.Name != "http" || !slices.ContainsFunc(s.Spec.Ports,
					func(p corev1.ServicePort) bool { return p.Name == b.Port.Name }) {
					t.Errorf("Ingress %s leads to %s %s", i.Name, b.Name, b.Port.Name)
				}
			}
		}
	}
	for _, p := range o.policies {
		pods := o.selected(t, &p.Spec.PodSelector)
		for _, rule := range p.Spec.Ingress {
			o.checkPeers(t, p.Name, rule.From, pods, rule.Ports)
		}
		for _, rule := range p.Spec.Egress {
			o.checkPeers(t, p.Name, rule.To, pods, nil)
		}
		if len(pods) == 0 {
			t.Errorf("NetworkPolicy %s selects no pods", p.Name)
		}
	}
}

// checkPeers checks a rule of a NetworkPolicy for pods that have the ports.
func (o *objects) checkPeers(t *testing.T, policy string, peers []networkingv1.NetworkPolicyPeer, pods []workload,
	ports []networkingv1.NetworkPolicyPort) {
	t.Helper()
	if len(peers) == 0 {
		t.Errorf("NetworkPolicy %s has a rule for all addresses", policy)
	}
	for _, peer := range peers {
		if peer.NamespaceSelector == nil && peer.PodSelector != nil && len(o.selected(t, peer.PodSelector)) == 0 {
			t.Errorf("NetworkPolicy %s is for pods that do not exist", policy)
		}
	}
	for _, port := range ports {
		for _, w := range pods {
			if !w.hasPort(*port.Port) {
				t.Errorf("NetworkPolicy %s: the pods have no port %s", policy, port.Port.String())
			}
		}
	}
}

// checkScaling checks the autoscaler and the budget for disruptions.
func (o *objects) checkScaling(t *testing.T) {
	t.Helper()
	for _, b := range o.budgets {
		if pods := o.selected(t, b.Spec.Selector); len(pods) != 1 || b.Spec.MaxUnavailable == nil ||
			b.Spec.MaxUnavailable.IntValue() >= int(pods[0].replicas) {
			t.Errorf("PodDisruptionBudget %s has %d kinds of pods, or lets all end", b.Name, len(pods))
		}
	}
	for _, s := range o.scalers {
		to := s.Spec.ScaleTargetRef
		at := slices.IndexFunc(o.workloads, func(w workload) bool { return w.where == to.Kind+" "+to.Name })
		if at < 0 || to.APIVersion != "apps/v1" || !is(s.Spec.MinReplicas, o.workloads[at].replicas) {
			t.Errorf("HorizontalPodAutoscaler %s is for %+v with another number of pods", s.Name, to)
			continue
		}
		known := read(t, "../../cmd/agentsignal/e2e/operations/metrics_test.go")
		for _, m := range s.Spec.Metrics {
			switch {
			case m.Resource != nil:
				if _, ok := o.workloads[at].pod.Spec.Containers[0].Resources.Requests[m.Resource.Name]; !ok {
					t.Errorf("there is no request of %s, of which it is a part", m.Resource.Name)
				}
			case m.Pods == nil || !strings.Contains(known, `{"`+m.Pods.Metric.Name+`", "GAUGE"`):
				t.Errorf("the service has no gauge %+v", m.Pods)
			}
		}
	}
}

// checkMonitoring checks that Prometheus finds the service under the name that its rules use, and that promtool
// accepts the rules. A test of the package deploy compares them with ../prometheus/rules.yml.
func (o *objects) checkMonitoring(t *testing.T) {
	t.Helper()
	for _, m := range o.monitors {
		found := 0
		for _, s := range o.services {
			if !selects(t, &m.Spec.Selector, s.Labels) {
				continue
			}
			found++
			if job := s.Labels[m.Spec.JobLabel]; job != "agentsignal" {
				t.Errorf("ServiceMonitor %s names the job %q", m.Name, job)
			}
			for _, e := range m.Spec.Endpoints {
				if e.Path != "/metrics" || e.Port != "admin" || !slices.ContainsFunc(s.Spec.Ports,
					func(p corev1.ServicePort) bool { return p.Name == e.Port }) {
					t.Errorf("ServiceMonitor %s asks port %s for %s", m.Name, e.Port, e.Path)
				}
			}
		}
		if found != 1 || len(m.Spec.Endpoints) != 1 {
			t.Errorf("ServiceMonitor %s finds %d Services, and has %d endpoints", m.Name, found, len(m.Spec.Endpoints))
		}
	}
	for _, r := range o.rules {
		promtool, err := exec.LookPath("promtool")
		if err != nil {
			t.Log("promtool is not installed: the rules are not checked")
			continue
		}
		text, err := yaml.Marshal(r.Spec)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "rules.yml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}

// selected returns the workloads whose pods a selector fits.
func (o *objects) selected(t *testing.T, s *metav1.LabelSelector) []workload {
	t.Helper()
	var found []workload
	for _, w := range o.workloads {
		if selects(t, s, w.pod.Labels) {
			found = append(found, w)
		}
	}
	return found
}

// selects reports whether a selector that is not empty fits labels.
func selects(t *testing.T, s *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return !selector.Empty() && selector.Matches(labels.Set(of))
}

// hasPort reports whether the container has a port of this name or number.
func (w workload) hasPort(port intstr.IntOrString) bool {
	return slices.ContainsFunc(w.pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
		return port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal
	})
}

// is reports whether p is given and points to v.
func is[V comparable](p *V, v V) bool {
	return p != nil && *p == v
}

// imageLine is a line of a compose file that names an image.
var imageLine = regexp.MustCompile(`(?m)^ *image: (\S+:\S+)$`)

// images returns the images that may be named: those of the compose files and that of the service, in the
// version of the Dockerfile.
func images(t *testing.T) []string {
	t.Helper()
	version := regexp.MustCompile(`(?m)^ARG VERSION=(\S+)$`).FindStringSubmatch(read(t, "../Dockerfile"))
	if version == nil {
		t.Fatal("the Dockerfile has no VERSION")
	}
	list := []string{"agentsignal:" + version[1], "registry.example.com/agentsignal:" + version[1]}
	for _, file := range []string{"../compose.yaml", "../compose.cluster.yaml"} {
		for _, m := range imageLine.FindAllStringSubmatch(read(t, file), -1) {
			list = append(list, m[1])
		}
	}
	return list
}
