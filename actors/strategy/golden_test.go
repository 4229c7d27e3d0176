package strategy

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestDocumentedArithmetic computes the example of "Why is confidence 0.4?" by the functions that make signals, from what
// the page gives of it.
func TestDocumentedArithmetic(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../deploy/NUMBERS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "## Why is confidence 0.4?")
	text, _, found := strings.Cut(text, "\n## ")
	if !found {
		t.Fatal("the page does not explain confidence")
	}
	has := func(form string, values ...any) {
		t.Helper()
		if want := fmt.Sprintf(form, values...); !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	const entry, stop, target = 82362.663, 84403.39, 79301.572
	const prior, evens, sample, share, together = .41039, .41142, 39.5, .435, 2.3632
	has("entry %v, stop %v, target %v", entry, stop, target)
	has("The target is %.1f times as far from the entry as the stop", (target-entry)/(entry-stop))
	has("1 of 1 + %.1f cases: %.2f", rewardToRisk, plainShare)
	has("%.0f %% |", 100*prior)
	has("%.4f before rounding", prior)
	has("| %.1f, %.4f |", sample, share)

	const entries, usual, of, all, near = 142.7, -.00631, .40113, .40534, .40803
	over := prior - evens
	plain := (entries*over + kappa*usual) / (entries + kappa)
	has("break-even and %.4f in BTC, and %.4f in all assets; weighed as %.1f to 2,000 that is %.4f, so %.4f.", over, usual,
		entries, plain, evens+plain)
	expected := evens + plain + all - of
	has("of all entries %.4f closed in profit, of its own, shrunk, %.4f: so %.4f.", of, all, expected)
	kept := evidence{}.kept()
	expected += kept * (near - all)
	has("comparable entries, shrunk, did in %.4f, and %v of the difference", near, kept)
	has("such differences: %.4f.", expected)
	own := count{n: 23.5, won: 23.5 * .4844}
	has("worth %.1f with a share of %.4f, are weighed against 2,000 of that: %.4f |", own.n, own.share(), own.shrunk(1, expected))

	a := Assessment{Loss: evens * together}
	a.Win = together - a.Loss
	a.set(estimate{own.shrunk(1, expected), sample, share}, rank{})
	cost := CostR(signal.Levels{Entry: entry, Stop: stop, Target: target}, entry, .001)
	has("confidence %.4f.", a.Confidence)
	has("| `confidence` | %.4f |", a.Confidence)
	has("| `break_even` | %.4f |", a.BreakEven(0))
	has("they make %.4f R together", a.Win+a.Loss)
	has("| `break_even_net` | %.4f |", a.BreakEven(cost))
	has("the stop is %.3f %% away: costs of %.4f R (`cost_r`), and %.4f + %.4f / %.4f = %.4f |", 100*(stop-entry)/entry, cost,
		a.BreakEven(0), cost, together, a.BreakEven(cost))
	has("| `edge` | %.4f | %.4f - %.4f |", a.Edge(cost), a.Confidence, a.BreakEven(cost))
	has("| `expected_r`, `expected_r_net` | %.4f, %.4f | %.4f · (%.4f - %.4f), and less %.4f |", a.ExpectedR(0),
		a.ExpectedR(cost), together, a.Confidence, a.BreakEven(0), cost)
}

var update = flag.Bool("update", false, "rewrite the golden file")

// goldenSignal is a signal as a client would see it.
type goldenSignal struct {
	Bar        int              `json:"bar"`
	Strategy   string           `json:"strategy"`
	Timeframe  signal.Timeframe `json:"timeframe"`
	Risk       signal.RiskLevel `json:"risk"`
	Direction  signal.Direction `json:"direction"`
	Score      float64          `json:"score"`
	Confidence float64          `json:"confidence"`
	Entry      float64          `json:"entry"`
	Stop       float64          `json:"stop"`
	Target     float64          `json:"target"`
	Metadata   json.RawMessage  `json:"metadata"`
}

// TestGoldenSignals compares the signals of seeded series with those in testdata.
// Run it with -update after a change that should alter them, and review the
// difference.
func TestGoldenSignals(t *testing.T) {
	const path = "testdata/signals.json"
	var got []goldenSignal
	for i, tf := range signal.Timeframes {
		bars := walk(uint64(70+i), 1300, 0.01)
		news := newsFor(bars, 7*hour)
		s := NewSeries(tf)
		for j, b := range bars {
			add(t, s, b)
			if j%333 != 332 && j != len(bars)-1 {
				continue
			}
			risk := signal.RiskLevels[(i+j)%3]
			for _, strategy := range []string{Momentum, MeanReversion, Breakout, Sentiment} {
				var a Assessment
				var err error
				if strategy == Sentiment {
					a, err = s.AssessSentiment(news, risk, b.CloseTime)
				} else {
					a, err = s.Assess(strategy, risk)
				}
				if err != nil {
					if strategy == Sentiment && runErrorCode(err) == signal.InsufficientHistory {
						continue // the windows of short timeframes hold too little of these news
					}
					t.Fatal(err)
				}
				l, err := a.Levels(b.Close, 0.001)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, goldenSignal{
					Bar: j, Strategy: strategy, Timeframe: tf, Risk: risk, Direction: a.Direction,
					Score: round(a.Score, 9), Confidence: a.Confidence, Entry: l.Entry, Stop: l.Stop, Target: l.Target,
					Metadata: a.Metadata("TEST", l, 0.1, map[string]any{"source": "simulated"}),
				})
			}
		}
	}
	text, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("signals differ from %s:\n%s", path, cmp.Diff(string(want), string(text)))
	}
}
