package operations

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
)

// deployed is the directory of the rules and their runbook, below that of the repository.
const (
	repository = "../../../.."
	deployed   = repository + "/deploy"
)

// ruleFile is the part of a file of Prometheus' rules that the tests look at.
type ruleFile struct{ Groups []ruleGroup }

type ruleGroup struct {
	Name  string
	Rules []rule
}

type rule struct {
	Alert       string `yaml:",omitempty"`
	Record      string `yaml:",omitempty"`
	Expr        string
	Labels      map[string]string `yaml:",omitempty"`
	Annotations map[string]string `yaml:",omitempty"`
}

func readRules(t *testing.T) (f ruleFile) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployed, "prometheus", "rules.yml"))
	e2e.Must(t, err)
	e2e.Must(t, yaml.Unmarshal(text, &f))
	return f
}

// Each alert has a severity and a section of the runbook, and each section is that of an alert.
func TestAlertsAreInTheRunbook(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(deployed, "RUNBOOK.md"))
	e2e.Must(t, err)
	var sections []string
	for _, m := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(string(text), -1) {
		sections = append(sections, m[1])
	}
	var alerts []string
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			alerts = append(alerts, r.Alert)
			if s := r.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s has the severity %q", r.Alert, s)
			}
			if !strings.HasSuffix(r.Annotations["runbook_url"], "/deploy/RUNBOOK.md#"+strings.ToLower(r.Alert)) {
				t.Errorf("%s names the page %q", r.Alert, r.Annotations["runbook_url"])
			}
			if r.Annotations["summary"] == "" {
				t.Errorf("%s has no summary", r.Alert)
			}
		}
	}
	if len(alerts) == 0 || !slices.Equal(alerts, sections) {
		t.Errorf("the alerts are\n%q, the sections of the runbook\n%q", alerts, sections)
	}
}

// TestRunbookNamesWhatExists: each setting and each request of the runbook exists. Its commands are checked with those of
// other documents, its expressions with the metrics.
func TestRunbookNamesWhatExists(t *testing.T) {
	t.Parallel()
	defaults, err := configs.Default().YAML()
	e2e.Must(t, err)
	var sections map[string]yaml.Node
	e2e.Must(t, yaml.Unmarshal(defaults, &sections))
	description, err := os.ReadFile(e2e.OpenAPIFile)
	e2e.Must(t, err)
	var api struct{ Paths map[string]map[string]any }
	e2e.Must(t, yaml.Unmarshal(description, &api))
	settings, requests := 0, 0
	for _, span := range commandtest.Runbook(t, repository) {
		if m := settingName.FindStringSubmatch(span); m != nil {
			settings++
			var section map[string]any
			if node, ok := sections[m[1]]; ok {
				e2e.Must(t, node.Decode(&section))
			}
			if _, ok := section[m[2]]; !ok {
				t.Errorf("there is no setting %s", span)
			}
		}
		if m := requestLine.FindStringSubmatch(span); m != nil {
			requests++
			if _, ok := api.Paths[m[2]][strings.ToLower(m[1])]; !ok {
				t.Errorf("there is no request %s", span)
			}
		}
	}
	if settings < 10 || requests < 4 {
		t.Errorf("only %d settings and %d requests were found", settings, requests)
	}
}

var (
	settingName = regexp.MustCompile(`^([a-z_]+)\.([a-z_]+)(: .*)?$`)
	requestLine = regexp.MustCompile(`^([A-Z]+) (/v1/[^?]+)`)
)

// checkRules compares the metrics that rules use with the names of series of the service, and runs the tests
// of the rules.
func checkRules(t *testing.T, names []string) {
	t.Helper()
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			checkNames(t, "the rule "+r.Alert+r.Record, r.Expr, names)
		}
	}
	text, err := os.ReadFile(filepath.Join(deployed, "RUNBOOK.md"))
	e2e.Must(t, err)
	checkNames(t, "the runbook", string(text), names)
	var expressions []string
	for _, span := range commandtest.Runbook(t, repository) {
		if metricName.MatchString(span) {
			expressions = append(expressions, span)
		}
	}
	checkExpressions(t, "runbook", expressions)
	promtool(t, "check", "config", "prometheus.yml")
	promtool(t, "test", "rules", "rules_test.yml")
}

// board is the part of a dashboard of Grafana that the test looks at.
type board struct {
	Panels []struct {
		Title, Type string
		Targets     []struct{ Expr string }
	}
}

// boardVariables stand for what Grafana puts into an expression.
var boardVariables = strings.NewReplacer("$job", "agentsignal", "$instance", ".*", "$__rate_interval", "5m")

func readBoard(t *testing.T) (b board) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployed, "grafana", "dashboards", "agentsignal.json"))
	e2e.Must(t, err)
	e2e.Must(t, json.Unmarshal(text, &b))
	return b
}

// checkBoard compares the metrics that the dashboard shows with the names of series of the service, and its
// expressions with promtool where that is installed.
func checkBoard(t *testing.T, names []string) {
	t.Helper()
	var expressions []string
	for _, p := range readBoard(t).Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			checkNames(t, "the panel "+p.Title, target.Expr, names)
			expressions = append(expressions, boardVariables.Replace(target.Expr))
		}
	}
	checkExpressions(t, "dashboard", expressions)
}

// checkExpressions parses the expressions of a document with promtool, where that is installed.
func checkExpressions(t *testing.T, document string, expressions []string) {
	t.Helper()
	if len(expressions) == 0 {
		t.Errorf("the %s has no expressions", document)
	}
	group := ruleGroup{Name: document}
	for i, e := range expressions {
		group.Rules = append(group.Rules, rule{Record: fmt.Sprintf("%s:%d", document, i), Expr: e})
	}
	file := filepath.Join(t.TempDir(), document+".yml")
	text, err := yaml.Marshal(ruleFile{Groups: []ruleGroup{group}})
	e2e.Must(t, err)
	e2e.Must(t, os.WriteFile(file, text, 0o600))
	promtool(t, "check", "rules", file)
}

// checkNames compares the metrics of an expression with the names of series of the service.
func checkNames(t *testing.T, what, expr string, names []string) {
	t.Helper()
	names = append(names, "agentsignal_tls_certificate_expiry_timestamp_seconds") // only with a certificate
	for _, name := range metricName.FindAllString(expr, -1) {
		if !slices.Contains(names, name) {
			t.Errorf("%s uses %s, which the service does not have", what, name)
		}
	}
}

var metricName = regexp.MustCompile(`\b(agentsignal|process|go)_[a-z0-9_]+`)

// promtool runs promtool in the directory of the rules, where it is installed.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not installed: the rules and the expressions of the dashboard are not evaluated")
		return
	}
	check := exec.Command(tool, args...)
	check.Dir = filepath.Join(deployed, "prometheus")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
