package backtest

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

func run(t *testing.T, bars []marketdata.Bar, o Options) Result {
	t.Helper()
	r, err := Run(t.Context(), bars, o)
	if err != nil {
		t.Fatalf("backtest: %v", err)
	}
	return r
}

func TestBacktestEqualsLiveRuns(t *testing.T) {
	t.Parallel()
	bars := walk(1, 700)
	for _, name := range audited {
		o := testOptions(name)
		o.Overlap = true
		r := run(t, bars, o)
		for _, i := range []int{350, 351, 420, 555, 699} {
			series := strategy.NewSeries(signal.H1).WithTick(.01)
			if err := series.Sync(bars[:i+1]); err != nil {
				t.Fatal(err)
			}
			a, err := series.Assess(name, signal.MediumRisk)
			if err != nil {
				t.Fatal(err)
			}
			want, err := a.Evaluate(o.Origin, bars[i].Close)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := r.At(i)
			if !ok {
				t.Fatalf("no signal of %s at bar %d", name, i)
			}
			if d := cmp.Diff(want, got.Evaluation); d != "" {
				t.Errorf("%s at bar %d: %s", name, i, d)
			}
			if got.CreatedAt != bars[i].CloseTime {
				t.Errorf("made at %d, want the close of the bar, %d", got.CreatedAt, bars[i].CloseTime)
			}
		}
	}
}

func TestTradesDoNotDependOnLaterBars(t *testing.T) {
	t.Parallel()
	bars := walk(2, 800)
	o := testOptions(strategy.Momentum)
	all := run(t, bars, o)
	for _, n := range []int{450, 601, 733} {
		part := run(t, bars[:n], o)
		for i, got := range part.Trades {
			want := all.Trades[i]
			if got.Open() {
				want.Exit, want.ExitBar, want.ClosedAt, want.Excursion = strategy.Exit{}, 0, 0, got.Excursion
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("with %d bars, trade %d: %s", n, i, d)
			}
		}
	}
}

// TestTradesEndByTheRulesForBars computes the exits a second time, bar by bar.
func TestTradesEndByTheRulesForBars(t *testing.T) {
	t.Parallel()
	bars := walk(3, 3000)
	reasons := map[signal.CloseReason]int{}
	for _, risk := range signal.RiskLevels {
		o := testOptions(strategy.Breakout)
		o.Risk, o.Cost = risk, .001
		r := run(t, bars, o)
		horizon := strategy.Horizon(o.Timeframe, risk)
		sum, point := 0.0, 0
		for i, trade := range r.Trades {
			if trade.Open() {
				if i != len(r.Trades)-1 || trade.Bar+horizon < len(bars) {
					t.Errorf("trade %d at bar %d is open", i, trade.Bar)
				}
				continue
			}
			var want strategy.Exit
			at := trade.Bar
			for ended := false; !ended; {
				at++
				want, ended = strategy.ExitOnBar(trade.Direction, trade.Levels, bars[at])
				if !ended && at == trade.Bar+horizon {
					want, ended = strategy.ExitOnExpiry(bars[at].Close), true
				}
			}
			if trade.Exit != want || trade.ExitBar != at || trade.ClosedAt != bars[at].CloseTime {
				t.Errorf("trade %d ends by %+v at bar %d, want %+v at %d", i, trade.Exit, trade.ExitBar, want, at)
			}
			reasons[want.Reason]++
			// At the bar with which one ends, the next one is made.
			if i > 0 && trade.Bar != r.Trades[i-1].ExitBar {
				t.Errorf("trade %d was made at bar %d, the one before was open until %d", i, trade.Bar,
					r.Trades[i-1].ExitBar)
			}
			gross := strategy.R(trade.Direction, trade.Levels, want.Price)
			risked := math.Abs(trade.Levels.Entry - trade.Levels.Stop)
			sum += gross - .001*trade.Levels.Entry/risked - .001*want.Price/risked
			if got := r.Equity[point]; got.At != trade.ClosedAt || math.Abs(got.R-sum) > 1e-9 {
				t.Errorf("equity at %d is %v, want %v", point, got, Point{trade.ClosedAt, sum})
			}
			point++
			// The price was at both ends of all bars but the last, and at the exit.
			best, worst := max(0, gross), min(0, gross)
			for _, b := range bars[trade.Bar+1 : trade.ExitBar] {
				for _, price := range []float64{b.Low, b.High} {
					at := strategy.R(trade.Direction, trade.Levels, price)
					best, worst = max(best, at), min(worst, at)
				}
			}
			if x := trade.Excursion; x.Best < best || x.Worst > worst || x.Best > 1.55 ||
				want.Reason == signal.StopLoss && x.Best > best+.5 {
				t.Errorf("trade %d that ended at %.3f R went from %.3f to %.3f, want %.3f to %.3f or more",
					i, gross, x.Worst, x.Best, worst, best)
			}
		}
		if s := r.Statistics; point != len(r.Equity) || s.Count != point || math.Abs(float64(s.TotalR)-sum) > 1e-9 {
			t.Errorf("statistics of %d trades with %v R, want %d with %v", s.Count, s.TotalR, point, sum)
		}
	}
	if len(reasons) != 3 {
		t.Errorf("trades ended by %v only", reasons)
	}
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	bars := walk(4, 600)
	o := testOptions(strategy.MeanReversion)
	single := run(t, bars, o)
	o.Overlap = true
	all := run(t, bars, o)
	if len(all.Trades) < 3*len(single.Trades) {
		t.Errorf("%d signals with overlap, %d without", len(all.Trades), len(single.Trades))
	}
	for _, trade := range single.Trades {
		other, ok := all.At(trade.Bar)
		if d := cmp.Diff(other, trade); !ok || d != "" {
			t.Errorf("at bar %d: %s", trade.Bar, d)
		}
	}
}

func TestBoundsLimitSignalsButNotHistory(t *testing.T) {
	t.Parallel()
	bars := walk(5, 700)
	o := testOptions(strategy.Momentum)
	o.From, o.To = bars[500].CloseTime, bars[560].CloseTime
	r := run(t, bars, o)
	if len(r.Trades) == 0 || r.Trades[0].Bar != 500 {
		t.Fatalf("the first signal is %+v, want one of bar 500", r.Trades)
	}
	for _, trade := range r.Trades {
		if trade.Bar < 500 || trade.Bar > 560 {
			t.Errorf("a signal was made at bar %d", trade.Bar)
		}
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	long := walk(6, 400)
	still := walk(6, 400)
	for i := range still {
		still[i].Open, still[i].High, still[i].Low, still[i].Close = 100, 100, 100, 100
	}
	bad := walk(6, 400)
	bad[200].High = -1
	empty := testOptions(strategy.Momentum)
	empty.From = time.Now().UnixMilli()
	for _, c := range []struct {
		name string
		bars []marketdata.Bar
		o    Options
		code signal.ErrorCode
		want string
	}{
		{"no bars", nil, testOptions(strategy.Momentum), signal.InsufficientHistory, "no bars"},
		{"few bars", long[:299], testOptions(strategy.Momentum), signal.InsufficientHistory, "only 299"},
		{"no movement", still, testOptions(strategy.Momentum), signal.InsufficientHistory, "not moved"},
		{"no bars in time", long, empty, signal.InsufficientHistory, "no bars in the requested time"},
		{"no news", long, testOptions(strategy.Sentiment), signal.InsufficientHistory, "news"},
		{"bad bar", bad, testOptions(strategy.Momentum), signal.DataUnavailable, "not possible"},
		{"no such strategy", long, testOptions("luck"), signal.Internal, ""},
	} {
		_, err := Run(t.Context(), c.bars, c.o)
		e, ok := errors.AsType[*signal.RunError](err)
		if !ok || e.Code != c.code || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s: %v, want %s with %q", c.name, err, c.code, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ended, long, testOptions(strategy.Momentum)); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

func TestSentimentUsesTheNewsOfItsTime(t *testing.T) {
	t.Parallel()
	bars := walk(7, 500)
	o := testOptions(strategy.Sentiment)
	for i := range 60 { // an item every 5 hours of the last 300
		o.News = append(o.News, strategy.NewsItem{ID: string(rune('a' + i)), At: bars[200+5*i].CloseTime,
			Headline: []string{"Walk shares surge to a record high", "Regulator opens probe into walk",
				"Walk beats estimates"}[i%3] + string(rune('A'+i))})
	}
	r := run(t, bars, o)
	if len(r.Trades) < 10 {
		t.Fatalf("only %d signals", len(r.Trades))
	}
	early := o
	early.News = nil
	last := r.Trades[len(r.Trades)-2]
	for _, item := range o.News {
		if item.At <= last.CreatedAt {
			early.News = append(early.News, item)
		}
	}
	early.To = last.CreatedAt
	again := run(t, bars, early)
	if d := cmp.Diff(last, again.Trades[len(again.Trades)-1]); d != "" {
		t.Errorf("later news change a signal: %s", d)
	}
}

// TestOutagesCutTheHistory checks that bars before an outage say nothing about those after it, and that signals that are open
// end with it.
func TestOutagesCutTheHistory(t *testing.T) {
	t.Parallel()
	const cut = 500
	bars := walk(7, 1000)
	o := testOptions(strategy.Momentum)
	o.Overlap = true
	before := run(t, bars[:cut], o)
	o.Cuts = []int{cut}
	got := run(t, bars, o)
	n, open := len(before.Trades), 0
	for i := range before.Trades {
		want := before.Trades[i]
		if want.Open() {
			open++
			want.Exit, want.ExitBar, want.ClosedAt = strategy.ExitOnExpiry(bars[cut-1].Close), cut-1, bars[cut-1].CloseTime
		}
		if d := cmp.Diff(want, got.Trades[i]); d != "" {
			t.Fatalf("signal %d before the outage: %s", i, d)
		}
	}
	if open == 0 || len(got.Trades) <= n || got.Trades[n].Bar < cut+200 {
		t.Errorf("%d open before the outage, %d signals after it", open, len(got.Trades)-n)
	}
}

// TestPartsAreOne checks that parts that are replayed at the same time give what one replay of all bars does: also where a
// market did not move for so long that the bars before a part do not suffice, where an outage is near, and where a signal
// lives until the end.
func TestPartsAreOne(t *testing.T) {
	t.Parallel()
	const n = 26_000
	still := walk(5, n)
	for i := 6000; i < 12_000; i++ {
		c := still[5999].Close
		still[i].Open, still[i].High, still[i].Low, still[i].Close = c, c, c, c
	}
	for name, c := range map[string]struct {
		bars    []marketdata.Bar
		cuts    []int
		overlap bool
	}{
		"a walk":  {walk(4, n), nil, false},
		"outages": {walk(4, n), []int{3000, n/2 - 5, n/2 + 400}, false},
		"still":   {still, nil, false},
		"overlap": {walk(4, n/2), nil, true},
	} {
		o := testOptions(strategy.Breakout)
		o.Cuts, o.Overlap, o.Jumps, o.Metadata = c.cuts, c.overlap, true, false
		o.parts = 1
		want := run(t, c.bars, o)
		for _, parts := range []int{2, 3} {
			o.parts = parts
			got := run(t, c.bars, o)
			if d := cmp.Diff(want.Trades, got.Trades); d != "" || len(want.Trades) < 1000 {
				t.Errorf("%s: %d signals, in %d parts:\n%s", name, len(want.Trades), parts, d)
			}
		}
	}
}

// TestJumpsAreNamed checks that a backtest ends at a bar that opens too far from the close
// before it, unless that is allowed.
func TestJumpsAreNamed(t *testing.T) {
	t.Parallel()
	bars := walk(7, 600)
	for i := 450; i < len(bars); i++ { // a split
		b := &bars[i]
		b.Open, b.High, b.Low, b.Close = b.Open/2, b.High/2, b.Low/2, b.Close/2
	}
	o := testOptions(strategy.Momentum)
	_, err := Run(t.Context(), bars, o)
	if jump, ok := errors.AsType[*JumpError](err); !ok || jump.At != bars[450].OpenTime || jump.Split != "2:1" {
		t.Errorf("got %v, want the bar of the jump", err)
	}
	o.Jumps = true
	if r := run(t, bars, o); len(r.Trades) == 0 {
		t.Error("no signals although jumps are allowed")
	}
	o.Jumps, o.To = false, bars[440].CloseTime
	if r := run(t, bars, o); len(r.Trades) == 0 || r.Greatest != nil {
		t.Errorf("%d signals before the jump, greatest %v", len(r.Trades), r.Greatest)
	}
	long := walk(7, 1200)
	copy(long[:600], bars)
	for i := 600; i < len(long); i++ {
		b := &long[i]
		b.Open, b.High, b.Low, b.Close = b.Open/2, b.High/2, b.Low/2, b.Close/2
	}
	o.From, o.To = long[500].OpenTime, 0
	if r := run(t, long, o); len(r.Trades) == 0 || r.Trades[0].Bar < 749 || r.Greatest != nil {
		t.Errorf("the jump before the first signal counts: %v, %v", r.Trades[0].Bar, r.Greatest)
	}
}
