package strategy

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestArithmeticOfTheREADME computes the example of "Why is confidence 0.4?" by the functions that make signals, from
// what the README gives of it.
func TestArithmeticOfTheREADME(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "**Why is confidence 0.4?**")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("the README does not explain confidence")
	}
	has := func(form string, values ...any) {
		t.Helper()
		if want := fmt.Sprintf(form, values...); !strings.Contains(text, want) {
			t.Errorf("the README has no %q", want)
		}
	}
	const entry, stop, target = 87413.63, 86349.22, 89010.25
	const prior, sample, share, together = .4186, 50.5, .3775, 2.427
	has("entry %v, stop %v, target %v", entry, stop, target)
	has("The target is %.1f times as far from the entry as the stop", (target-entry)/(entry-stop))
	has("1 of 1 + %.1f cases: %.2f", rewardToRisk, plainShare)
	has("%.0f %% |", 100*prior)
	has("%.4f before rounding", prior)
	has("| %.1f, %.4f |", sample, share)
	has("%.1f / %.1f = %.2f %% of the way from %.4f to %.4f is %.3f", sample, sample+kappa, 100*sample/(sample+kappa), prior,
		share, (prior-share)*sample/(sample+kappa))

	near := count{n: sample, won: sample * share}
	a := Assessment{Loss: .4064 * together}
	a.Win = together - a.Loss
	a.set(estimate{near.shrunk(1, near.shrunk(1, prior)), sample, share}, rank{})
	cost := CostR(signal.Levels{Entry: entry, Stop: stop, Target: target}, entry, .001)
	has("confidence %.4f.", a.Confidence)
	has("| `confidence` | %.4f |", a.Confidence)
	has("| `break_even` | %.4f |", a.BreakEven(0))
	has("they make %.3f R together", a.Win+a.Loss)
	has("| `break_even_net` | %.4f |", a.BreakEven(cost))
	has("the stop is %.3f %% away: costs of %.4f R, and %.4f + %.4f / %.3f = %.4f |", 100*(entry-stop)/entry, cost,
		a.BreakEven(0), cost, together, a.BreakEven(cost))
	has("| `edge` | %.4f | %.4f - %.4f |", a.Edge(cost), a.Confidence, a.BreakEven(cost))
	has("| `expected_r`, `expected_r_net` | %.4f, %.4f | %.3f · (%.4f - %.4f), and less %.4f |", a.ExpectedR(0),
		a.ExpectedR(cost), together, a.Confidence, a.BreakEven(0), cost)
}
