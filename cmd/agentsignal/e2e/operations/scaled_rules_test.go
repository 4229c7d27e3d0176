package operations

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// The rules wait for minutes, hours and, in the group of the audit, days. scaledRules makes them a test's:
// in all groups a minute becomes a second, in that of the audit an hour does. This concerns ranges, the times
// of "for", and the limits that are times for which something waits.
const (
	scale      = 60
	auditScale = 3600
	auditGroup = "agentsignal-audit"
)

// scaledLimits has the alerts whose limit is the time for which something waits, in seconds. Other limits are
// the service's own latencies, counts, shares, and the age of a certificate.
var scaledLimits = map[string]bool{"AgentsignalStreamStuck": true, "AgentsignalWebhookBacklog": true,
	"AgentsignalAuditMissing": true}

var (
	ranges    = regexp.MustCompile(`\[[0-9]+[smhd]\]`)
	lastLimit = regexp.MustCompile(`> [0-9]+$`)
)

// scaledFile is a file of rules with everything that it may have.
type scaledFile struct {
	Groups []struct {
		Name  string
		Rules []scaledRule
	}
}

type scaledRule struct {
	Alert       string            `yaml:",omitempty"`
	Record      string            `yaml:",omitempty"`
	Expr        string            `yaml:",omitempty"`
	For         string            `yaml:",omitempty"`
	Labels      map[string]string `yaml:",omitempty"`
	Annotations map[string]string `yaml:",omitempty"`
}

// readAllRules reads rules.yml, and fails the test if there is a member that it does not know.
func readAllRules(tb testing.TB) (f scaledFile) {
	tb.Helper()
	file, err := os.Open(filepath.Join(deployed, "prometheus", "rules.yml"))
	e2e.Must(tb, err)
	defer file.Close()
	known := yaml.NewDecoder(file)
	known.KnownFields(true)
	e2e.Must(tb, known.Decode(&f))
	return f
}

// shorter divides a duration of Prometheus of one unit.
func shorter(tb testing.TB, text string, by int) string {
	tb.Helper()
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		e2e.Must(tb, err)
		text = fmt.Sprintf("%dh", 24*n)
	}
	d, err := time.ParseDuration(text)
	e2e.Must(tb, err)
	if d%(time.Duration(by)*time.Second) != 0 {
		tb.Fatalf("%s divided by %d has no whole seconds", text, by)
	}
	return fmt.Sprintf("%ds", int(d.Seconds())/by)
}

// scaledRules returns the rules of rules.yml with shorter times.
func scaledRules(tb testing.TB) scaledFile {
	tb.Helper()
	f := readAllRules(tb)
	for i := range f.Groups {
		by := scale
		if f.Groups[i].Name == auditGroup {
			by = auditScale
		}
		for k := range f.Groups[i].Rules {
			r := &f.Groups[i].Rules[k]
			r.Expr = ranges.ReplaceAllStringFunc(r.Expr, func(s string) string {
				return "[" + shorter(tb, strings.Trim(s, "[]"), by) + "]"
			})
			if r.For != "" {
				r.For = shorter(tb, r.For, by)
			}
			if scaledLimits[r.Alert] {
				r.Expr = lastLimit.ReplaceAllStringFunc(r.Expr, func(s string) string {
					return "> " + strings.TrimSuffix(shorter(tb, s[2:]+"s", by), "s")
				})
			}
		}
	}
	return f
}

// Scaled rules differ from those of rules.yml in times only, and in all of these.
func TestScaledRulesDifferInTimesOnly(t *testing.T) {
	t.Parallel()
	rules, scaled := readAllRules(t), scaledRules(t)
	times := func(r scaledRule) (text string, list []string) {
		text = ranges.ReplaceAllStringFunc(r.Expr, func(s string) string {
			list = append(list, strings.Trim(s, "[]"))
			return "[]"
		})
		if scaledLimits[r.Alert] {
			text = lastLimit.ReplaceAllStringFunc(text, func(s string) string {
				list = append(list, s[2:]+"s")
				return ">"
			})
		}
		if r.For != "" {
			list = append(list, r.For)
		}
		r.Expr, r.For = text, ""
		rest, err := yaml.Marshal(r)
		e2e.Must(t, err)
		return string(rest), list
	}
	alerts := map[string]bool{}
	for i, g := range rules.Groups {
		by := time.Duration(scale)
		if g.Name == auditGroup {
			by = auditScale
		}
		if scaled.Groups[i].Name != g.Name || len(scaled.Groups[i].Rules) != len(g.Rules) {
			t.Fatalf("the group %s has become %s", g.Name, scaled.Groups[i].Name)
		}
		for k, r := range g.Rules {
			alerts[r.Alert] = true
			text, before := times(r)
			other, after := times(scaled.Groups[i].Rules[k])
			if text != other || len(before) != len(after) {
				t.Errorf("%s has become %s", text, other)
				continue
			}
			for n := range before {
				long, err := time.ParseDuration(before[n])
				e2e.Must(t, err)
				short, err := time.ParseDuration(after[n])
				e2e.Must(t, err)
				if long != by*short {
					t.Errorf("%s%s: %s has become %s", r.Alert, r.Record, long, short)
				}
			}
		}
	}
	for name := range scaledLimits {
		if !alerts[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
}
