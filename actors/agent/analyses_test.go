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

// fakePast answers by a function.
type fakePast func(ctx context.Context, asset string, tf signal.Timeframe) (market.Snapshot, error)

func (f fakePast) Past(ctx context.Context, asset string, tf signal.Timeframe) (market.Snapshot, error) {
	return f(ctx, asset, tf)
}

// pastOfTests is the history of all other tests.
func pastOfTests(context.Context, string, signal.Timeframe) (market.Snapshot, error) {
	return history(), nil
}

// ends runs the job workers for a while and returns how the job ended.
func (b *bench) ends() *signal.Job {
	b.t.Helper()
	stop := b.work()
	time.Sleep(time.Minute)
	stop()
	changes := b.log.all()
	if len(changes) != 1 || changes[0].Job == nil || len(changes[0].Events) != 0 || changes[0].Signal != nil {
		b.t.Fatalf("stored %+v, want the end of one job and nothing else", changes)
	}
	j := changes[0].Job
	if j.Status != signal.JobQueued && (j.CompletedAt.IsZero() || j.ExpiresAt.Sub(j.CompletedAt) != 24*time.Hour || j.Signal != nil) {
		b.t.Errorf("job ended as %+v", j)
	}
	if (j.Status == signal.JobCompleted) != (j.Error == nil && j.Result != nil) {
		b.t.Errorf("job is %s with result %s and error %v", j.Status, j.Result, j.Error)
	}
	return j
}

func TestAScanRanksByStrengthAndNamesWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.close()
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
				return market.Snapshot{}, &signal.RunError{Code: signal.DataUnavailable, Message: "no source knows " + asset}
			}
			s := history()
			s.Bars = s.Bars[:n]
			s.Asset.Symbol, s.Last.Price = asset, s.Bars[n-1].Close
			return s, nil
		}
		assets := []string{"NOSUCH", "SOL", "BTC", "PANIC", "ETH", "AAPL", "BUG", "MSFT"}
		req := request("")
		job, err := b.agents.SubmitScan(t.Context(), req, assets)
		if err != nil || job.Kind != signal.JobScan || !slices.Equal(job.Assets, assets) || job.Status != signal.JobQueued {
			t.Fatalf("queued %+v, %v", job, err)
		}
		var got scanResult
		if err := json.Unmarshal(b.ends().Result, &got); err != nil {
			t.Fatal(err)
		}
		want := []scanFailure{{"NOSUCH", signal.DataUnavailable}, {"PANIC", signal.Internal}, {"BUG", signal.Internal}}
		if d := cmp.Diff(want, got.Errors); d != "" {
			t.Errorf("errors (-want +got):\n%s", d)
		}
		if len(got.Ranked) != len(lengths) || !slices.IsSortedFunc(got.Ranked, func(x, y scanned) int {
			return -int(1e4**x.Strength - 1e4**y.Strength)
		}) {
			t.Errorf("ranked are %+v", got.Ranked)
		}
		for _, s := range got.Ranked {
			// Exactly what a run says of the asset.
			one := req
			one.Asset = s.Asset
			c, err := b.agents.exec.evaluators["trading"].Evaluate(t.Context(), &one)
			if err != nil {
				t.Fatal(err)
			}
			if s.Direction != c.Direction || s.Confidence != c.Confidence || *s.Entry != c.Levels.Entry || *s.Stop != c.Levels.Stop || *s.Target != c.Levels.Target {
				t.Errorf("%s: %+v, want %+v", s.Asset, s, c)
			}
		}
	})
}

func TestABacktestGoesOverWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Past: fakePast(pastOfTests)})
		defer b.close()
		bars := historyOfTests
		from, to := time.UnixMilli(bars[600].CloseTime).UTC(), time.UnixMilli(bars[1400].CloseTime).UTC()
		if _, err := b.agents.SubmitBacktest(t.Context(), request("btc"), from, to); err != nil {
			t.Fatal(err)
		}
		want, err := backtest.Run(t.Context(), bars, backtest.Options{Origin: strategy.Origin{Asset: "btc", Tick: .001, Source: "simulated", Compression: 60},
			Strategy: "momentum", Timeframe: signal.H1, Risk: signal.MediumRisk, From: bars[600].CloseTime, To: bars[1400].CloseTime, Cost: .001})
		if err != nil {
			t.Fatal(err)
		}
		if want.Statistics.Count < 10 {
			t.Fatalf("only %d signals are replayed", want.Statistics.Count)
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(text), string(b.ends().Result)); d != "" {
			t.Error(d)
		}
	})
}

// TestARunAtACloseIsTheBacktestsSignal: at the instant at which a bar closes, on a source
// without ticks, a run stores what a backtest has of that bar, in every field but
// identifiers and times, for each strategy, sentiment too.
func TestARunAtACloseIsTheBacktestsSignal(t *testing.T) {
	var news []strategy.NewsItem
	for i := range 400 { // one every three hours and a half
		news = append(news, strategy.NewsItem{ID: fmt.Sprint(i), At: historyOfTests[100].CloseTime + int64(i)*12_600_000 + 17, Symbols: []string{"BTC"}, Weight: 1,
			Headline: []string{"Bitcoin surges to a record high", "Regulator opens probe into bitcoin", "Bitcoin beats estimates", "Bitcoin funds plunge"}[i*7%4] + fmt.Sprint(" ", i)})
	}
	for _, last := range []int{1100, 1341, 1499} {
		for _, name := range []string{strategy.Momentum, strategy.MeanReversion, strategy.Breakout, strategy.Sentiment} {
			synctest.Test(t, func(t *testing.T) {
				at := historyOfTests[last].CloseTime
				snapshot := func(n int) market.Snapshot {
					s := history()
					s.Bars, s.Ticks, s.Compression = s.Bars[:n], false, 1
					s.Last = marketdata.Tick{Price: s.Bars[n-1].Close, Time: s.Bars[n-1].CloseTime}
					return s
				}
				b := newBench(t, Options{Now: func() time.Time { return time.UnixMilli(at).UTC() },
					Past: fakePast(func(context.Context, string, signal.Timeframe) (market.Snapshot, error) {
						return snapshot(len(historyOfTests)), nil
					})})
				defer b.close()
				b.market.series = func(context.Context, string, signal.Timeframe) (market.Snapshot, error) {
					return snapshot(last + 1), nil
				}
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
				replayed, err := b.agents.backtest(t.Context(), &run{request: req, job: &signal.Job{From: time.UnixMilli(at), To: time.UnixMilli(at)}})
				if err != nil {
					t.Fatal(name, err)
				}
				want, ok := replayed.At(last)
				if !ok {
					t.Fatalf("the backtest of %s has no signal at bar %d", name, last)
				}
				same := strategy.Evaluation{Direction: got.Direction, Confidence: got.Confidence, Levels: *got.Levels, Metadata: got.Metadata,
					Lifetime: got.ExpiresAt.Sub(got.CreatedAt)}
				if d := cmp.Diff(want.Evaluation, same); d != "" || got.Asset != "btc" || got.Strategy != name || got.FirstConfidence != got.Confidence {
					t.Errorf("%s at bar %d (-backtest +live):\n%s", name, last, d)
				}
			})
		}
	}
}

func TestJobsThatCannotBeDoneSayWhy(t *testing.T) {
	for name, c := range map[string]struct {
		past fakePast
		code signal.ErrorCode
	}{
		"no data": {func(context.Context, string, signal.Timeframe) (market.Snapshot, error) {
			return market.Snapshot{}, &signal.RunError{Code: signal.DataUnavailable, Message: "no source knows BTC"}
		}, signal.DataUnavailable},
		"little history": {func(context.Context, string, signal.Timeframe) (market.Snapshot, error) {
			s := history()
			s.Bars = s.Bars[:200]
			return s, nil
		}, signal.InsufficientHistory},
		"a panic": {func(context.Context, string, signal.Timeframe) (market.Snapshot, error) { panic("a bug") }, signal.Internal},
		"a bug": {func(context.Context, string, signal.Timeframe) (market.Snapshot, error) {
			return market.Snapshot{}, errors.New("a bug")
		}, signal.Internal},
		"too slow": {func(ctx context.Context, _ string, _ signal.Timeframe) (market.Snapshot, error) {
			<-ctx.Done()
			return market.Snapshot{}, ctx.Err()
		}, signal.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Options{Past: c.past})
				defer b.close()
				if _, err := b.agents.SubmitBacktest(t.Context(), request("BTC"), time.Time{}, time.Time{}); err != nil {
					t.Fatal(err)
				}
				if j := b.ends(); j.Error == nil || j.Error.Code != c.code {
					t.Errorf("job ended by %+v, want %s", j.Error, c.code)
				}
			})
		})
	}
}

func TestAJobThatWasInterruptedTooOftenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Past: fakePast(pastOfTests)})
		defer b.close()
		b.jobs.queued = []signal.Job{{ID: "job_1", Kind: signal.JobBacktest, Request: request("BTC"), Attempt: maxAttempts}}
		if j := b.ends(); j.Error == nil || j.Error.Code != signal.Cancelled {
			t.Errorf("job ended by %+v", j.Error)
		}
	})
}

// A process that ends leaves its work to another one.
func TestAnInterruptedJobHasNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Past: fakePast(func(ctx context.Context, _ string, _ signal.Timeframe) (market.Snapshot, error) {
			<-ctx.Done()
			return market.Snapshot{}, ctx.Err()
		})})
		if _, err := b.agents.SubmitBacktest(t.Context(), request("BTC"), time.Time{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		stop := b.work()
		time.Sleep(time.Second)
		stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.agents.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
		synctest.Wait()
		if changes := b.log.all(); len(changes) != 0 || len(b.jobs.done) != 1 {
			t.Errorf("stored %+v, done with %v", changes, b.jobs.done)
		}
		b.close()
	})
}

func TestBacktestsNeedBars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.close()
		if _, err := b.agents.SubmitBacktest(t.Context(), request("BTC"), time.Time{}, time.Time{}); signal.KindOf(err) != signal.KindUnavailable {
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
	if d := cmp.Diff(want, CheckScan(all[1], req, []string{"corn", "oil", "WHEAT"})); d != "" {
		t.Errorf("scan of weather (-want +got):\n%s", d)
	}
	if faults := CheckScan(all[0], signal.RunRequest{Strategy: "momentum"}, []string{"BTC", "anything"}); len(faults) != 0 {
		t.Errorf("scan of trading: %+v", faults)
	}
	for i, says := range map[int]string{1: "/v1/scorecard?agent_id=weather", 2: "content has no prices"} {
		if faults := CheckBacktest(all[i], req); len(faults) != 1 || faults[0].Pointer != "/agent_id" || !strings.Contains(faults[0].Detail, says) {
			t.Errorf("backtest of %s: %+v", all[i].ID, faults)
		}
	}
	if faults := CheckBacktest(all[0], signal.RunRequest{Strategy: "luck"}); len(faults) != 1 || faults[0].Pointer != "/strategy" {
		t.Errorf("backtest of no strategy: %+v", faults)
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	for class, want := range map[string]float64{assets.Crypto: .001, assets.Stock: .0002, assets.FX: .0001, assets.Commodity: .0003, assets.Metal: .0003, "": .001} {
		if got := backtest.DefaultCosts.Of(class); got != want {
			t.Errorf("cost of %q is %v, want %v", class, got, want)
		}
	}
}
