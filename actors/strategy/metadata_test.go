package strategy

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// checkMetadata checks the members that the metadata of every signal has.
func checkMetadata(tb testing.TB, raw json.RawMessage) map[string]any {
	tb.Helper()
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		tb.Fatalf("metadata %s: %v", raw, err)
	}
	indicators, _ := m["indicators"].([]any)
	reasoning, _ := m["reasoning"].(string)
	if len(indicators) == 0 || reasoning == "" {
		tb.Fatalf("metadata %s lacks indicators or reasoning", raw)
	}
	values, _ := m["values"].(map[string]any)
	for _, name := range indicators {
		if _, ok := values[name.(string)]; !ok {
			tb.Fatalf("metadata %s has no value of %v", raw, name)
		}
	}
	for _, bad := range []string{"NaN", "Inf"} {
		if strings.Contains(string(raw), bad) {
			tb.Fatalf("metadata %s", raw)
		}
	}
	return m
}

func TestMetadata(t *testing.T) {
	a := Assessment{
		Strategy: Momentum, Timeframe: signal.H1, Risk: signal.MediumRisk, Direction: signal.Long,
		Confidence: 0.4318, Strength: 0.8125, Win: 1.4, Loss: 1.1, Prior: 0.42, Sample: 931.4, Share: 0.4412, Entries: 140,
		Proven: true, ATR: 2, Horizon: 24,
		Indicators: []string{"ema_12_26", "adx_14", "atr_14"},
		Values: map[string]any{"adx_14": 27.1, "atr_14": 2.0,
			"ema_12_26": map[string]any{"ema_12": 99.0, "ema_26": 97.4}},
		Finding: "EMA12 is 0.8 ATR above EMA26 and the 40-bar move is +1.3 sigma; ADX 27 confirms a trend",
	}
	l := signal.Levels{Entry: 100, Stop: 97, Target: 104.5}
	got := string(a.Metadata("BTC", l, 0.1, map[string]any{"source": "simulated", "time_compression": 60}))
	want := `{"indicators":["ema_12_26","adx_14","atr_14"],"reasoning":"Momentum long on BTC 1h: ` +
		`EMA12 is 0.8 ATR above EMA26 and the 40-bar move is +1.3 sigma; ADX 27 confirms a trend. ` +
		`Estimate 43 %: comparable past setups, worth 931 independent ones, closed in profit 44 % of the time; ` +
		`past entries as a whole put it at 42 %; ` +
		`break-even after costs 48 %, so the past speaks for a loss. ` +
		`Stop 1.5 ATR, target 2.25 ATR, expires in 24 bars.",` +
		`"values":{"adx_14":27.1,"atr_14":2,"ema_12_26":{"ema_12":99,"ema_26":97.4}},"strength":0.8125,` +
		`"break_even":0.44,"break_even_net":0.48,"expected_r":-0.0205,"expected_r_net":-0.1205,"cost_r":0.1,"edge":-0.0482,` +
		`"confidence_interval":[0.4021,0.4615],"sample":931.4,"comparable_share":0.4412,` +
		`"measure":"probability","source":"simulated","time_compression":60}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata:\n%s", diff)
	}

	a.Calibration, a.Prior = CalibrationPrior, 0.41
	m := checkMetadata(t, a.Metadata("a \"quoted\"\n asset", l, 0, map[string]any{
		"reasoning": "another", "bad": math.NaN(), "odd \"name\"": 1,
	}))
	if m["reasoning"] != "another" || m["calibration"] != "prior" || m["odd \"name\""] != 1.0 {
		t.Errorf("extra members: %v", m)
	}
	if v, ok := m["bad"]; !ok || v != nil {
		t.Errorf("a value that is no JSON is %v, want null", v)
	}
	a.Win, a.Share = math.Inf(1), math.NaN()
	checkMetadata(t, a.Metadata("BTC", l, 0, nil))
}

func TestReasoning(t *testing.T) {
	plain := Assessment{Strategy: Sentiment, Timeframe: signal.D1, Direction: signal.Short, Confidence: 0.43, Prior: 0.412,
		Win: 1.5, Loss: 1, Entries: 140, Share: math.NaN(), ATR: 2, Horizon: 10, Finding: "x"}
	for _, c := range []struct {
		want string
		with func(a *Assessment)
	}{
		{"past entries, worth 140 independent ones, put it at 41 %, fewer than 100 of them had enough news to be " +
			"compared, and the score changes that by +1.8 points, which is assumed and not measured; " +
			"break-even after costs 40 %, so no evidence of an edge",
			func(a *Assessment) { a.Calibration, a.Sample = CalibrationPrior, 140 }},
		{"past entries, worth 140 independent ones, put it at 41 %, and the forecast changes that by +1.8 points, " +
			"which is assumed and not measured; break-even after costs 40 %, so no evidence of an edge",
			func(a *Assessment) { a.Calibration, a.Sample = CalibrationAssumed, 140 }},
		{"past entries, worth 140 independent ones, put it at 41 %, and the forecast changes that by +1.8 points, " +
			"as fitted to 212 closed signals; break-even after costs 40 %, so no evidence of an edge",
			func(a *Assessment) { a.Calibration, a.Sample, a.Closed = CalibrationFitted, 140, 212 }},
		{"hardly any comparable past setup is known, and past entries as a whole put it at 41 %; " +
			"break-even after costs 40 %, so no evidence of an edge", func(*Assessment) {}},
		{"comparable past setups, worth 5000 independent ones, closed in profit 45 % of the time; " +
			"past entries as a whole put it at 41 %; " +
			"break-even after costs 40 %, so the past speaks for an edge",
			func(a *Assessment) { a.Sample, a.Share, a.Proven = 5000, 0.45, true }},
		{"comparable past setups, worth 5000 independent ones, closed in profit 45 % of the time; " +
			"past entries as a whole put it at 41 %; " +
			"break-even after costs 40 %, so no evidence of an edge",
			func(a *Assessment) { a.Sample, a.Share = 5000, 0.45 }},
	} {
		a := plain
		c.with(&a)
		want := "Sentiment short on corn 1d: x. Estimate 43 %: " + c.want +
			". Stop 1.5 ATR, target 2.25 ATR, expires in 10 bars."
		got := a.Reasoning("corn", signal.Levels{Entry: 100, Stop: 103, Target: 95.5}, 0)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// TestFindings checks the findings of the strategies for realistic features.
func TestFindings(t *testing.T) {
	f := &Features{
		Bar: marketdata.Bar{Close: 103}, EMA12: 98, EMA26: 100, RSI14: 61.2, ADX14: 17, ATR14: 2, SMA20: 100, SD20: 2,
		Upper: 102, Lower: 96, VolumeRatio: 1.5, Sigma: 0.01, Move40: -0.01 * math.Sqrt(40),
	}
	quiet := *f
	quiet.Bar.Close, quiet.VolumeRatio, quiet.ADX14, quiet.EMA12 = 99, math.NaN(), 12, 101
	narrow := quiet
	narrow.Upper, narrow.Lower = 99, 99
	below := quiet
	below.Bar.Close = 95
	for _, c := range []struct {
		strategy technical
		f        *Features
		want     string
	}{
		{momentum{}, f, "EMA12 is 1.0 ATR below EMA26 and the 40-bar move is -1.0 sigma; ADX 17 shows a weak trend"},
		{momentum{}, &quiet, "EMA12 is 0.5 ATR above EMA26 and the 40-bar move is -1.0 sigma; ADX 12 shows no trend"},
		{meanReversion{}, f, "the close is +1.5 deviations from its 20-bar mean (%B 0.88) and RSI is 61; ADX is 17"},
		{breakout{}, f,
			"the close is 0.5 ATR above the high of the 20 bars before; volume is 1.5 times its 20-bar mean"},
		{breakout{}, &below, "the close is 0.5 ATR below the low of the 20 bars before; volume is not known"},
		{breakout{}, &quiet,
			"the close is inside the channel of the 20 bars before, 50 % of the way up; volume is not known"},
		{breakout{}, &narrow, "the channel of the 20 bars before has no width; volume is not known"},
	} {
		if got := c.strategy.finding(c.f); got != c.want {
			t.Errorf("%s: %q, want %q", c.strategy.name(), got, c.want)
		}
		for _, name := range c.strategy.indicators() {
			if _, ok := c.strategy.values(c.f)[name]; !ok {
				t.Errorf("%s has no value of %s", c.strategy.name(), name)
			}
		}
	}
}
