package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	const h = time.Hour
	// Each attempt is the number of hours after the first one; a success has a plus sign.
	tests := []struct {
		name     string
		rules    HealthRules
		attempts string
		want     string // verdicts, with the number of the attempt
	}{
		{"it succeeds", HealthRules{}, "+0h +1h", ""},
		{"it fails once", HealthRules{}, "0h", ""},
		{"it fails for a day less a second", HealthRules{}, "0h 23h59m59s", ""},
		{"it fails for a day", HealthRules{}, "0h 24h", "2 warn"},
		{"it fails often within a second day", HealthRules{}, "0h 24h 25h 47h", "2 warn"},
		{"it fails for two days", HealthRules{}, "0h 24h 48h 49h", "2 warn, 3 warn"},
		{"it was not tried on the first day", HealthRules{}, "0h 50h 51h", "2 warn"},
		{"it fails for three days less a second", HealthRules{}, "0h 1h 2h 3h 71h59m59s", "5 warn"},
		{"it fails for three days", HealthRules{}, "0h 1h 2h 3h 72h", "5 disable"},
		{"it fails for three days, but four times only", HealthRules{}, "0h 1h 2h 72h", "4 warn"},
		{"it fails for the fifth time on the fourth day", HealthRules{}, "0h 1h 2h 72h 73h", "4 warn, 5 disable"},
		{"it fails all the time", HealthRules{}, "0h 1h 24h 48h 71h 72h", "3 warn, 4 warn, 6 disable"},
		{"one success in three days clears it", HealthRules{}, "0h 1h 2h +3h 4h 5h 72h 75h", "7 warn"},
		{"it recovers before a warning", HealthRules{}, "0h +23h", ""},
		{"it recovers after a warning", HealthRules{}, "0h 24h +25h +26h", "2 warn, 3 recovered"},
		{"it fails after a recovery", HealthRules{}, "0h 24h +25h 26h 49h 50h", "2 warn, 3 recovered, 6 warn"},

		{"with other times", HealthRules{DisableAfter: 10 * h, MinFailures: 2, WarnAfter: []time.Duration{h}},
			"0h 1h 10h", "2 warn, 3 disable"},
		{"with warnings not below the disabling", HealthRules{DisableAfter: 24 * h, MinFailures: 9}, "0h 24h 49h", ""},
		{"with one warning below it", HealthRules{DisableAfter: 48 * h, MinFailures: 9}, "0h 24h 49h", "2 warn"},
		{"without warnings", HealthRules{WarnAfter: []time.Duration{}}, "0h 24h +25h", ""},
		{"an attempt that ends before one that began later", HealthRules{}, "1h 0h", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var health delivery.WebhookHealth
			var got []string
			for i, text := range strings.Fields(test.attempts) {
				after, success := strings.CutPrefix(text, "+")
				d, err := time.ParseDuration(after)
				if err != nil {
					t.Fatal(err)
				}
				var v Verdict
				health, v = test.rules.After(health, success, vectorTime.Add(d))
				for name, set := range map[string]bool{"disable": v.Disable, "warn": v.Warn, "recovered": v.Recovered} {
					if set {
						got = append(got, fmt.Sprint(i+1, " ", name))
					}
				}
			}
			if text := strings.Join(got, ", "); text != test.want {
				t.Errorf("verdicts %q, want %q", text, test.want)
			}
		})
	}
}

func TestHealthCountsFailures(t *testing.T) {
	t.Parallel()
	var rules HealthRules
	var health delivery.WebhookHealth
	for n := range 3 {
		health, _ = rules.After(health, false, vectorTime.Add(time.Duration(n)*13*time.Hour))
	}
	want := delivery.WebhookHealth{FailingSince: vectorTime, Failures: 3, Warned: 1}
	if diff := cmp.Diff(want, health); diff != "" {
		t.Errorf("failing (-want +got):\n%s", diff)
	}
	if health, _ = rules.After(health, true, vectorTime); health != (delivery.WebhookHealth{}) {
		t.Errorf("after a success: %+v", health)
	}
}
