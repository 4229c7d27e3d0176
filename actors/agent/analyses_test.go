package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// silentMarket does not answer before the run's context ends.
var silentMarket = &fakeMarket{
	series: func(ctx context.Context, _ string, _ signal.Timeframe) (market.Snapshot, error) {
		<-ctx.Done()
		return market.Snapshot{}, ctx.Err()
	},
}

// submitScan queues a scan of BTC.
func (b *bench) submitScan() {
	b.t.Helper()
	if _, err := b.agents.SubmitScan(b.t.Context(), request(""), []string{"BTC"}); err != nil {
		b.t.Fatal(err)
	}
}

// submitBacktest queues a backtest of BTC.
func (b *bench) submitBacktest() {
	b.t.Helper()
	if _, err := b.agents.SubmitBacktest(b.t.Context(), request("BTC"), time.Time{}, time.Time{}); err != nil {
		b.t.Fatal(err)
	}
}

// ends runs the job workers for a while and returns how the job ended.
func (b *bench) ends() *signal.Job {
	b.t.Helper()
	b.workFor(time.Minute)
	changes := b.log.all()
	if len(changes) != 1 || changes[0].Job == nil || len(changes[0].Events) != 0 || changes[0].Signal != nil {
		b.t.Fatalf("stored %+v, want the end of one job and nothing else", changes)
	}
	j := changes[0].Job
	if j.Status != signal.JobQueued &&
		(j.CompletedAt.IsZero() || j.ExpiresAt.Sub(j.CompletedAt) != 24*time.Hour || j.Signal != nil) {
		b.t.Errorf("job ended as %+v", j)
	}
	if (j.Status == signal.JobCompleted) != (j.Error == nil && j.Result != nil) {
		b.t.Errorf("job is %s with result %s and error %v", j.Status, j.Result, j.Error)
	}
	return j
}

func TestScanRanksByExpectedRAndReportsFailures(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		// Each asset has a history of another length, and so another last score.
		lengths := map[string]int{"BTC": 1500, "ETH": 1200, "SOL": 900, "AAPL": 700, "MSFT": 550}
		b.market.series = func(_ context.Context, asset string, _ signal.Timeframe) (market.Snapshot, error) {
			n, ok := lengths[asset]
			switch {
			case asset == "PANIC":
				panic("a bug")
			case asset == "BUG":
				return market.Snapshot{}, errors.New("a bug")
			case !ok:
				return market.Snapshot{}, &signal.RunError{Code: signal.DataUnavailable}
			}
			s := history()
			s.Bars = s.Bars[:n]
			s.Asset.Symbol, s.Last.Price = asset, s.Bars[n-1].Close
			return s, nil
		}
		assets := []string{"NOSUCH", "SOL", "BTC", "PANIC", "ETH", "AAPL", "BUG", "MSFT"}
		req := request("")
		job, err := b.agents.SubmitScan(t.Context(), req, assets)
		if err != nil || job.Kind != signal.JobScan || !slices.Equal(job.Assets, assets) ||
			job.Status != signal.JobQueued {
			t.Fatalf("queued %+v, %v", job, err)
		}
		var got scanResult
		must(t, json.Unmarshal(b.ends().Result, &got))
		want := []scanFailure{{"NOSUCH", signal.DataUnavailable}, {"PANIC", signal.Internal}, {"BUG", signal.Internal}}
		if d := cmp.Diff(want, got.Errors); d != "" {
			t.Errorf("errors (-want +got):\n%s", d)
		}
		var expected, strength []float64 // the last one first
		for _, s := range slices.Backward(got.Ranked) {
			expected, strength = append(expected, *s.ExpectedRNet), append(strength, *s.Strength)
		}
		if len(got.Ranked) != len(lengths) || !slices.IsSorted(expected) {
			t.Errorf("ranked are %+v", got.Ranked)
		}
		if slices.IsSorted(strength) {
			t.Error("these histories rank in the same order by strength")
		}
		for _, s := range got.Ranked {
			// The same as a run on the asset.
			one := req
			one.Asset = s.Asset
			c, err := b.agents.exec.evaluators["trading"].Evaluate(t.Context(), &one)
			if err != nil {
				t.Fatal(err)
			}
			l := c.Levels
			want := scanned{
				Asset: s.Asset, Direction: c.Direction, Confidence: c.Confidence,
				Entry: &l.Entry, Stop: &l.Stop, Target: &l.Target,
			}
			if err := json.Unmarshal(c.Metadata, &struct {
				ExpectedRNet **float64 `json:"expected_r_net"`
				Edge         **float64 `json:"edge"`
				Strength     **float64 `json:"strength"`
			}{&want.ExpectedRNet, &want.Edge, &want.Strength}); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, s); d != "" {
				t.Errorf("%s (-want +got):\n%s", s.Asset, d)
			}
		}
	})
}

// A scan of an agent without expectations ranks by confidence, below all that have one.
func TestRankOfScans(t *testing.T) {
	t.Parallel()
	expected := -.5
	if with, without := (&scanned{ExpectedRNet: &expected}).rank(), (&scanned{}).rank(); with <= without {
		t.Errorf("ranked by %v with an expectation, by %v without", with, without)
	}
}

func TestBacktestReplaysTheStoredBars(t *testing.T) {
	for tf, slippage := range map[signal.Timeframe]float64{signal.M1: .081, signal.M5: .031, signal.H1: .008} {
		bars := slices.Clone(historyOfTests)
		for i := range bars {
			bars[i].OpenTime = int64(i) * tf.Duration().Milliseconds()
			bars[i].CloseTime = bars[i].OpenTime + tf.Duration().Milliseconds()
		}
		seen := history()
		seen.Bars = bars
		withBench(t, Options{History: at(&seen), Slippage: .008}, func(t *testing.T, b *bench) {
			from, to := time.UnixMilli(bars[600].CloseTime).UTC(), time.UnixMilli(bars[1400].CloseTime).UTC()
			req := request("btc")
			req.Timeframe = tf
			if _, err := b.agents.SubmitBacktest(t.Context(), req, from, to); err != nil {
				t.Fatal(err)
			}
			want, err := backtest.Run(t.Context(), bars, backtest.Options{
				Origin:   strategy.Origin{Asset: "btc", Tick: .001, Source: "simulated", Compression: 60, Cost: .001},
				Strategy: strategy.Momentum, Timeframe: tf, Risk: signal.MediumRisk,
				From: bars[600].CloseTime, To: bars[1400].CloseTime, Slippage: slippage,
			})
			if err != nil {
				t.Fatal(err)
			}
			if want.Statistics.Count < 10 || want.Statistics.Reasons.StopLoss == 0 {
				t.Fatalf("only %+v are replayed", want.Statistics)
			}
			text, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(text), string(b.ends().Result)); d != "" {
				t.Errorf("%s: %s", tf, d)
			}
		})
	}
}

// TestRunEqualsBacktestAtTheClose checks that a run at the close of a bar, on a source
// without ticks, makes the same signal as a backtest at that bar, for each strategy.
func TestRunEqualsBacktestAtTheClose(t *testing.T) {
	var news []strategy.NewsItem
	headlines := []string{"Bitcoin surges to a record high", "Regulator opens probe into bitcoin",
		"Bitcoin beats estimates", "Bitcoin funds plunge"}
	for i := range 400 { // one every three hours and a half
		news = append(news, strategy.NewsItem{ID: fmt.Sprint(i), Symbols: []string{"BTC"}, Weight: 1,
			At:       historyOfTests[100].CloseTime + int64(i)*12_600_000 + 17,
			Headline: headlines[i*7%4] + fmt.Sprint(" ", i)})
	}
	for _, last := range []int{1100, 1341, 1499} {
		for _, name := range []string{"momentum", "mean_reversion", "breakout", "sentiment"} {
			closing := historyOfTests[last].CloseTime
			snapshot := func(n int) *fakeMarket {
				s := history()
				s.Bars, s.Ticks, s.Compression = s.Bars[:n], false, 1
				s.Last = marketdata.Tick{Price: s.Bars[n-1].Close, Time: s.Bars[n-1].CloseTime}
				return at(&s)
			}
			o := Options{History: snapshot(len(historyOfTests)),
				Now: func() time.Time { return time.UnixMilli(closing).UTC() }}
			withBench(t, o, func(t *testing.T, b *bench) {
				b.market.series = snapshot(last + 1).series
				b.market.news = func(_ string, since int64) (list []strategy.NewsItem, err error) {
					for _, item := range news {
						if item.At >= since {
							list = append(list, item)
						}
					}
					return list, nil
				}
				req := request("btc")
				req.Strategy = name
				ran, err := b.agents.Run(t.Context(), req)
				if err != nil {
					t.Fatal(name, err)
				}
				got := ran.Signal
				job := &signal.Job{From: time.UnixMilli(closing), To: time.UnixMilli(closing)}
				bars, options, err := newAnalyst(b.agents).replayed(t.Context(), &run{request: req, job: job})
				if err != nil {
					t.Fatal(name, err)
				}
				options.Metadata = true
				replayed, err := backtest.Run(t.Context(), bars, options)
				if err != nil {
					t.Fatal(name, err)
				}
				want, ok := replayed.At(last)
				if !ok {
					t.Fatalf("the backtest of %s has no signal at bar %d", name, last)
				}
				same := strategy.Evaluation{Direction: got.Direction, Confidence: got.Confidence, Levels: *got.Levels,
					Metadata: got.Metadata, Lifetime: got.ExpiresAt.Sub(got.CreatedAt)}
				if d := cmp.Diff(want.Evaluation, same); d != "" || got.Asset != "btc" || got.Strategy != name ||
					got.FirstConfidence != got.Confidence {
					t.Errorf("%s at bar %d (-backtest +live):\n%s", name, last, d)
				}
			})
		}
	}
}

func TestAnalysesThatFail(t *testing.T) {
	short := history()
	short.Bars = short.Bars[:200]
	panicking := &fakeMarket{series: seriesFunc(func() (market.Snapshot, error) { panic("a bug") })}
	for name, c := range map[string]struct {
		past *fakeMarket
		code signal.ErrorCode
	}{
		"no data":        {failing(&signal.RunError{Code: signal.DataUnavailable}), signal.DataUnavailable},
		"little history": {at(&short), signal.InsufficientHistory},
		"a panic":        {panicking, signal.Internal},
		"a bug":          {failing(errors.New("a bug")), signal.Internal},
		"too slow":       {silentMarket, signal.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			withBench(t, Options{History: c.past}, func(t *testing.T, b *bench) {
				b.submitBacktest()
				if j := b.ends(); j.Error == nil || j.Error.Code != c.code {
					t.Errorf("job ended by %+v, want %s", j.Error, c.code)
				}
			})
		})
	}
}

func TestJobInterruptedTooOftenEnds(t *testing.T) {
	withBench(t, Options{History: &fakeMarket{}}, func(t *testing.T, b *bench) {
		job := signal.Job{ID: "job_1", Kind: signal.JobBacktest, Request: request("BTC"), Attempt: maxAttempts}
		b.jobs.queued = []signal.Job{job}
		if j := b.ends(); j.Error == nil || j.Error.Code != signal.Cancelled {
			t.Errorf("job ended by %+v", j.Error)
		}
	})
}

// TestInterruptedJobHasNoOutcome checks that a process that ends leaves its analyses to
// another one.
func TestInterruptedJobHasNoOutcome(t *testing.T) {
	withBench(t, Options{History: silentMarket}, func(t *testing.T, b *bench) {
		b.submitBacktest()
		b.workFor(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.agents.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
		synctest.Wait()
		if changes := b.log.all(); len(changes) != 0 || len(b.jobs.done) != 1 {
			t.Errorf("stored %+v, done with %v", changes, b.jobs.done)
		}
	})
}

func TestBacktestsNeedBars(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		_, err := b.agents.SubmitBacktest(t.Context(), request("BTC"), time.Time{}, time.Time{})
		if signal.KindOf(err) != signal.KindUnavailable {
			t.Errorf("without bars: %v", err)
		}
		odd := request("BTC")
		odd.Strategy = "luck"
		if _, err := b.agents.SubmitScan(t.Context(), odd, []string{"BTC"}); signal.KindOf(err) != signal.KindInvalid {
			t.Errorf("unknown strategy: %v", err)
		}
	})
}

func TestCheckScanAndBacktest(t *testing.T) {
	t.Parallel()
	all := signal.Agents()
	req := signal.RunRequest{Strategy: "agriculture"}
	want := []Fault{{"/assets/1", codeInvalidValue, "for the strategy agriculture it must be one of: corn, wheat"}}
	if d := cmp.Diff(want, checkScan(all[1], req, []string{"corn", "oil", "WHEAT"})); d != "" {
		t.Errorf("scan of weather (-want +got):\n%s", d)
	}
	faults := checkScan(all[0], signal.RunRequest{Strategy: "momentum"}, []string{"BTC", "anything"})
	if len(faults) != 0 {
		t.Errorf("scan of trading: %+v", faults)
	}
	for i, detail := range map[int]string{1: "/v1/scorecard?agent_id=weather", 2: "content has no prices"} {
		if faults := checkBacktest(all[i], req); len(faults) != 1 || faults[0].Pointer != "/agent_id" ||
			!strings.Contains(faults[0].Detail, detail) {
			t.Errorf("backtest of %s: %+v", all[i].ID, faults)
		}
	}
	faults = checkBacktest(all[0], signal.RunRequest{Strategy: "luck"})
	if len(faults) != 1 || faults[0].Pointer != "/strategy" {
		t.Errorf("backtest of no strategy: %+v", faults)
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	for class, want := range map[string]float64{assets.Crypto: .001, assets.Stock: .0002, assets.FX: .0001,
		assets.Commodity: .0003, assets.Metal: .0003, "": .001} {
		if got := backtest.DefaultCosts.Of(class); got != want {
			t.Errorf("cost of %q is %v, want %v", class, got, want)
		}
	}
}
