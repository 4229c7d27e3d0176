package webhook

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	const ok, fails = true, false
	type attempt struct {
		after   time.Duration // the one first made
		success bool
	}
	h := time.Hour
	tests := []struct {
		name     string
		rules    HealthRules
		attempts []attempt
		want     []string // what follows, with the number of the attempt
	}{
		{"it succeeds", HealthRules{}, []attempt{{0, ok}, {h, ok}}, nil},
		{"it fails once", HealthRules{}, []attempt{{0, fails}}, nil},
		{"it fails for a day less a second", HealthRules{}, []attempt{{0, fails}, {24*h - time.Second, fails}}, nil},
		{"it fails for a day", HealthRules{}, []attempt{{0, fails}, {24 * h, fails}}, []string{"2 warn"}},
		{"it fails often within a second day", HealthRules{}, []attempt{{0, fails}, {24 * h, fails}, {25 * h, fails}, {47 * h, fails}}, []string{"2 warn"}},
		{"it fails for two days", HealthRules{}, []attempt{{0, fails}, {24 * h, fails}, {48 * h, fails}, {49 * h, fails}}, []string{"2 warn", "3 warn"}},
		{"it was not tried on the first day", HealthRules{}, []attempt{{0, fails}, {50 * h, fails}, {51 * h, fails}}, []string{"2 warn"}},
		{"it fails for three days less a second", HealthRules{},
			[]attempt{{0, fails}, {h, fails}, {2 * h, fails}, {3 * h, fails}, {72*h - time.Second, fails}}, []string{"5 warn"}},
		{"it fails for three days", HealthRules{},
			[]attempt{{0, fails}, {h, fails}, {2 * h, fails}, {3 * h, fails}, {72 * h, fails}}, []string{"5 disable"}},
		{"it fails for three days, but four times only", HealthRules{},
			[]attempt{{0, fails}, {h, fails}, {2 * h, fails}, {72 * h, fails}}, []string{"4 warn"}},
		{"it fails for the fifth time on the fourth day", HealthRules{},
			[]attempt{{0, fails}, {h, fails}, {2 * h, fails}, {72 * h, fails}, {73 * h, fails}}, []string{"4 warn", "5 disable"}},
		{"it fails through all of it", HealthRules{},
			[]attempt{{0, fails}, {h, fails}, {24 * h, fails}, {48 * h, fails}, {71 * h, fails}, {72 * h, fails}}, []string{"3 warn", "4 warn", "6 disable"}},
		{"one success in three days clears it", HealthRules{},
			[]attempt{{0, fails}, {h, fails}, {2 * h, fails}, {3 * h, ok}, {4 * h, fails}, {5 * h, fails}, {72 * h, fails}, {75 * h, fails}},
			[]string{"7 warn"}},
		{"it recovers before a warning", HealthRules{}, []attempt{{0, fails}, {23 * h, ok}}, nil},
		{"it recovers after a warning", HealthRules{}, []attempt{{0, fails}, {24 * h, fails}, {25 * h, ok}, {26 * h, ok}}, []string{"2 warn", "3 recovered"}},
		{"it fails anew after it has recovered", HealthRules{},
			[]attempt{{0, fails}, {24 * h, fails}, {25 * h, ok}, {26 * h, fails}, {49 * h, fails}, {50 * h, fails}}, []string{"2 warn", "3 recovered", "6 warn"}},

		{"with other times", HealthRules{DisableAfter: 10 * h, MinFailures: 2, WarnAfter: []time.Duration{h}},
			[]attempt{{0, fails}, {h, fails}, {10 * h, fails}}, []string{"2 warn", "3 disable"}},
		{"with warnings not below the disabling", HealthRules{DisableAfter: 24 * h, MinFailures: 9},
			[]attempt{{0, fails}, {24 * h, fails}, {49 * h, fails}}, nil},
		{"with one warning below the disabling", HealthRules{DisableAfter: 48 * h, MinFailures: 9},
			[]attempt{{0, fails}, {24 * h, fails}, {49 * h, fails}}, []string{"2 warn"}},
		{"without warnings", HealthRules{WarnAfter: []time.Duration{}}, []attempt{{0, fails}, {24 * h, fails}, {25 * h, ok}}, nil},
		{"an attempt that ends before one that began later", HealthRules{}, []attempt{{h, fails}, {0, fails}}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var (
				health delivery.WebhookHealth
				got    []string
			)
			for i, a := range test.attempts {
				var v Verdict
				health, v = test.rules.After(health, a.success, vectorTime.Add(a.after))
				for what, so := range map[string]bool{"disable": v.Disable, "warn": v.Warn, "recovered": v.Recovered} {
					if so {
						got = append(got, fmt.Sprint(i+1, " ", what))
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("what follows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHealthTellsSinceWhenItFails(t *testing.T) {
	t.Parallel()
	var (
		rules  HealthRules
		health delivery.WebhookHealth
	)
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
