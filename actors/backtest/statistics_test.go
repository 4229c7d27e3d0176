package backtest

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// goldenCase is written by testdata/golden.py, an independent implementation.
type goldenCase struct {
	Name     string
	Outcomes []Outcome
	Want     struct {
		Count, Wins    int
		HitRate        *float64 `json:"hit_rate"`
		Interval       []float64
		BreakEven      *float64 `json:"break_even"`
		BreakEvenNet   *float64 `json:"break_even_net"`
		MeanR          *float64 `json:"mean_r"`
		MedianR        *float64 `json:"median_r"`
		ExpectancyR    *float64 `json:"expectancy_r"`
		TotalR         float64  `json:"total_r"`
		ProfitFactor   *float64 `json:"profit_factor"`
		MaxDrawdownR   float64  `json:"max_drawdown_r"`
		MeanMinutes    *float64 `json:"mean_duration_minutes"`
		MeanMFE        *float64 `json:"mean_mfe_r"`
		MeanMAE        *float64 `json:"mean_mae_r"`
		MeanConfidence *float64 `json:"mean_confidence"`
		Reasons        Reasons
		Brier          *float64 `json:"brier_score"`
		BrierSkill     *float64 `json:"brier_skill"`
		Reliability    []struct {
			Count          int
			MeanConfidence *float64 `json:"mean_confidence"`
			HitRate        *float64 `json:"hit_rate"`
		}
	}
}

func goldenCases(t *testing.T) []goldenCase {
	t.Helper()
	text, err := os.ReadFile("testdata/statistics.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestStatisticsEqualIndependentOnes(t *testing.T) {
	t.Parallel()
	for _, c := range goldenCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			got, want := Summarize(c.Outcomes), c.Want
			same := func(what string, got Figure, want *float64) {
				t.Helper()
				if want == nil {
					if !math.IsNaN(float64(got)) {
						t.Errorf("%s is %v, want null", what, got)
					}
				} else if !(math.Abs(float64(got)-*want) < 1e-9) {
					t.Errorf("%s is %.12f, want %.12f", what, got, *want)
				}
			}
			if got.Count != want.Count || got.Wins != want.Wins || got.Reasons != want.Reasons {
				t.Errorf("counts are %d, %d, %+v, want %d, %d, %+v", got.Count, got.Wins, got.Reasons,
					want.Count, want.Wins, want.Reasons)
			}
			low, high := (*float64)(nil), (*float64)(nil)
			if want.Interval != nil {
				low, high = &want.Interval[0], &want.Interval[1]
			}
			same("low end", got.HitRateInterval.Low, low)
			same("high end", got.HitRateInterval.High, high)
			same("hit rate", got.HitRate, want.HitRate)
			same("break-even", got.BreakEven, want.BreakEven)
			same("break-even after costs", got.BreakEvenNet, want.BreakEvenNet)
			same("mean", got.MeanR, want.MeanR)
			same("median", got.MedianR, want.MedianR)
			same("expectancy", got.ExpectancyR, want.ExpectancyR)
			same("total", got.TotalR, &want.TotalR)
			same("profit factor", got.ProfitFactor, want.ProfitFactor)
			same("drawdown", got.MaxDrawdownR, &want.MaxDrawdownR)
			same("duration", got.MeanMinutes, want.MeanMinutes)
			same("MFE", got.MeanMFE, want.MeanMFE)
			same("MAE", got.MeanMAE, want.MeanMAE)
			same("confidence", got.MeanConfidence, want.MeanConfidence)
			same("Brier score", got.Brier, want.Brier)
			same("Brier skill", got.BrierSkill, want.BrierSkill)
			for i, b := range want.Reliability {
				if got.Reliability[i].Count != b.Count {
					t.Errorf("bucket %d has %d, want %d", i, got.Reliability[i].Count, b.Count)
				}
				same("confidence of a bucket", got.Reliability[i].MeanConfidence, b.MeanConfidence)
				same("hit rate of a bucket", got.Reliability[i].HitRate, b.HitRate)
			}
		})
	}
}

// TestWilsonInterval compares with published tables, to their precision.
func TestWilsonInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wins, count int
		low, high   float64
	}{{0, 10, 0, .2775}, {10, 10, .7225, 1}, {5, 10, .2366, .7634}, {40, 100, .3094, .4980}, {1, 1, .2065, 1}} {
		got := Wilson(c.wins, c.count)
		if math.Abs(float64(got.Low)-c.low) > 6e-5 || math.Abs(float64(got.High)-c.high) > 6e-5 {
			t.Errorf("of %d in %d: %.4f to %.4f, want %.4f to %.4f", c.wins, c.count, got.Low, got.High, c.low, c.high)
		}
	}
}

func TestUndefinedStatisticsAreNull(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Summarize(nil))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hit_rate", "break_even", "break_even_net", "mean_r", "median_r", "expectancy_r",
		"profit_factor", "brier_score", "brier_skill"} {
		if v, ok := got[name]; !ok || v != nil {
			t.Errorf("%s is %v, want null", name, v)
		}
	}
	if got["count"] != 0.0 || got["max_drawdown_r"] != 0.0 || len(got["reliability"].([]any)) != 10 {
		t.Errorf("statistics without outcomes are %s", text)
	}
}

func TestFiguresAreRoundedAndReadBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		figure Figure
		text   string
	}{{.1 + .2, "0.3"}, {-1e-9, "0"}, {none, "null"}, {Figure(math.Inf(1)), "null"},
		{1234567.1234567, "1234567.123457"}} {
		text, err := json.Marshal(c.figure)
		if err != nil || string(text) != c.text {
			t.Errorf("%v is written %s (%v), want %s", c.figure, text, err, c.text)
		}
		var back Figure
		if err := json.Unmarshal(text, &back); err != nil {
			t.Errorf("%s is not read: %v", text, err)
		}
	}
}

func TestStatisticsDoNotDependOnTheOrderGiven(t *testing.T) {
	t.Parallel()
	var outcomes []Outcome
	for i := range 50 {
		outcomes = append(outcomes, Outcome{At: int64(i), R: []float64{1.5, -1, .25}[i%3], Cost: .01, Confidence: .4,
			Reason: signal.Expired})
	}
	want, err := json.Marshal(Summarize(slices.Clone(outcomes)))
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(outcomes)
	got, err := json.Marshal(Summarize(outcomes))
	if d := cmp.Diff(string(want), string(got)); d != "" || err != nil {
		t.Error(d, err)
	}
}
