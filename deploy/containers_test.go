package deploy

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/agentsignal/agentsignal/configs"
)

// stage is a stage of the Dockerfile: the words of its lines by their first one, in upper case.
type stage map[string][]string

// readStages returns the stages of the Dockerfile by their names, and the name of the last.
func readStages(t *testing.T) (stages map[string]stage, last string) {
	t.Helper()
	text := strings.ReplaceAll(read(t, "Dockerfile"), "\\\n", " ")
	stages = map[string]stage{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if words[0] == "FROM" {
			last = words[len(words)-1]
			stages[last] = stage{}
		}
		stages[last][words[0]] = append(stages[last][words[0]], strings.Join(words[1:], " "))
	}
	return stages, last
}

// No engine for containers runs here, so the text of the Dockerfile is checked.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	stages, last := readStages(t)
	if last != "agentsignal" || len(stages) != 3 {
		t.Errorf("the stages are %v, the last is %s", stages, last)
	}
	build := strings.Join(stages["build"]["RUN"], "\n")
	for _, want := range []string{"CGO_ENABLED=0", "GOARCH=$TARGETARCH", "-trimpath", "-o /out/agentsignal",
		"./cmd/agentsignal"} {
		if !strings.Contains(build, want) {
			t.Errorf("the program is built without %s: %s", want, build)
		}
	}
	if c := strings.Join(stages["agentsignal"]["COPY"], "\n"); !strings.Contains(c, "/etc/ssl/certs/ca-certificates.crt") {
		t.Errorf("the image has no certificates to trust: %s", c)
	}
	for name, want := range map[string]string{"agentsignal": `["serve"]`, "demo": `["serve", "--demo"]`} {
		if c := stages[name]["CMD"]; !slices.Equal(c, []string{want}) {
			t.Errorf("%s: it runs %q, want %s", name, c, want)
		}
	}
	if from := stages["agentsignal"]["FROM"]; from[0] != "scratch AS agentsignal" {
		t.Errorf("the image is from %s", from)
	}
	for _, name := range []string{"agentsignal", "demo"} {
		s := stages[name]
		for instruction, want := range map[string]string{
			"USER": "65532:65532", "EXPOSE": "8080", "VOLUME": "/data", "ENTRYPOINT": `["/usr/bin/agentsignal"]`,
		} {
			if !slices.Equal(s[instruction], []string{want}) {
				t.Errorf("%s: %s is %q, want %q", name, instruction, s[instruction], want)
			}
		}
		if h := s["HEALTHCHECK"]; len(h) != 1 || !strings.HasSuffix(h[0], `CMD ["/usr/bin/agentsignal", "healthcheck"]`) {
			t.Errorf("%s: the health check is %q", name, h)
		}
		if c := strings.Join(s["COPY"], "\n"); !strings.Contains(c, "--from=build /out/agentsignal /usr/bin/agentsignal") {
			t.Errorf("%s: it has no program: %s", name, c)
		}
	}
	for _, file := range strings.Fields("go.mod go.sum") {
		if _, err := os.Stat(filepath.Join("..", file)); err != nil || !strings.Contains(stages["build"]["COPY"][0], file) {
			t.Errorf("%s is not copied: %v", file, err)
		}
	}
}

// composed is the part of a compose file that the test looks at.
type composed struct {
	Services map[string]struct {
		Image, User string
		Build       struct{ Context, Dockerfile, Target string }
		Command     []string
		Environment map[string]string
		Volumes     []string
		Networks    []string
		ReadOnly    bool      `yaml:"read_only"`
		DependsOn   yaml.Node `yaml:"depends_on"`
	}
	Networks, Volumes map[string]any
}

// withDefault is a variable of compose with a default.
var withDefault = regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)

// Each compose file mounts files that exist, names only networks, volumes and services that it has, and
// gives the service only settings that exist.
func TestCompose(t *testing.T) {
	t.Parallel()
	stages, _ := readStages(t)
	for file, nodes := range map[string]int{"compose.yaml": 1, "compose.cluster.yaml": 4} {
		var c composed
		if err := yaml.Unmarshal([]byte(read(t, file)), &c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for name, s := range c.Services {
			where := file + ": " + name
			if s.Image == "" && s.Build.Target == "" {
				t.Errorf("%s has no image", where)
			}
			if b := s.Build; b.Target != "" && (b.Context != ".." || b.Dockerfile != "deploy/Dockerfile" ||
				stages[b.Target] == nil) {
				t.Errorf("%s is built from %+v", where, b)
			}
			for _, v := range s.Volumes {
				from, _, _ := strings.Cut(v, ":")
				_, err := os.Stat(from)
				_, named := c.Volumes[from]
				if isFile := strings.HasPrefix(from, "./"); isFile && err != nil || !isFile && !named {
					t.Errorf("%s mounts %s: %v", where, v, err)
				}
			}
			for _, n := range s.Networks {
				if _, ok := c.Networks[n]; !ok {
					t.Errorf("%s is in %s, which is no network", where, n)
				}
			}
			for _, n := range s.DependsOn.Content {
				if _, ok := c.Services[n.Value]; !ok && n.Kind == yaml.ScalarNode {
					t.Errorf("%s depends on %s", where, n.Value)
				}
			}
			if s.Image == "agentsignal" || s.Build.Target != "" {
				nodes--
				checkSettings(t, where, s.Environment)
			}
			if len(s.Environment) > 1 && !s.ReadOnly {
				t.Errorf("%s may write to its image", where)
			}
		}
		if nodes != 0 {
			t.Errorf("%s: %d containers of the service are missing", file, nodes)
		}
	}
}

// The rules for the Prometheus operator are those for Prometheus. What else is to be said of the files for Kubernetes
// is in the module check.
func TestOperatorRules(t *testing.T) {
	t.Parallel()
	var rule struct{ Spec any }
	var want any
	for file, to := range map[string]any{"kubernetes/base/rules.yaml": &rule, "prometheus/rules.yml": &want} {
		if err := yaml.Unmarshal([]byte(read(t, file)), to); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if !reflect.DeepEqual(rule.Spec, want) {
		t.Error("kubernetes/base/rules.yaml does not have the rules of prometheus/rules.yml: run make kubernetes-rules")
	}
}

// checkSettings fails the test for variables that are not valid settings. Those of files count as given.
func checkSettings(t *testing.T, where string, environment map[string]string) {
	t.Helper()
	var variables []string
	for name, value := range environment {
		if setting, isFile := strings.CutSuffix(name, "_FILE"); isFile {
			name, value = setting, "given"
		}
		variables = append(variables, name+"="+withDefault.ReplaceAllString(value, "$1"))
	}
	if _, err := configs.Load("", variables); err != nil {
		t.Errorf("%s: %v", where, err)
	}
}
