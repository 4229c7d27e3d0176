package strategy

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

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
