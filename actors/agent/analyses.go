package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Analyses are scans and backtests. They use the functions of runs, but store no signals
// and publish no events: what they find is the result of their job.

// History provides the bars of assets, however old. See market.Market.
type History interface {
	// History returns the closed bars of an asset. The error is a *signal.RunError.
	History(ctx context.Context, asset string, tf signal.Timeframe) (market.Snapshot, error)
}

const (
	// MaxScanned is the maximum number of assets of a scan.
	MaxScanned = 50
	// scanWorkers is how many of them are evaluated at once.
	scanWorkers = 4
)

// analyst executes analyses.
type analyst struct {
	o       *Options
	exec    *executor
	trading *trader
}

func newAnalyst(a *Agents) *analyst { return &analyst{o: &a.o, exec: a.exec, trading: a.trading} }

// analyze executes r, an analysis, and stores its result, or failure unless that is nil.
func (a *analyst) analyze(r *run, failure *signal.RunError) error {
	var result json.RawMessage
	var err error
	if failure != nil {
		err = failure
	} else {
		ctx, cancel := context.WithTimeoutCause(a.exec.ctx, a.o.Timeout, errTimeout)
		result, err = a.resultOf(ctx, r)
		cause := context.Cause(ctx)
		cancel()
		if err != nil && cause != nil {
			if errors.Is(cause, errDrained) {
				return errInterrupted
			}
			err = endedError(cause)
		}
	}
	return a.store(r, result, err)
}

// store records the end of an analysis: its result or err.
func (a *analyst) store(r *run, result json.RawMessage, err error) error {
	now := a.o.Now()
	j := *r.job
	j.Status, j.Result, j.CompletedAt, j.ExpiresAt = signal.JobCompleted, result, now, now.Add(a.o.JobRetention)
	if err != nil {
		failed, ok := errors.AsType[*signal.RunError](err)
		if !ok {
			a.o.Slog.Error("job failed", "kind", string(j.Kind), "job", string(j.ID), "err", err)
			failed = internalError(err)
		}
		j.Status, j.Result, j.Error = signal.JobFailed, nil, failed
	}
	_, err = a.exec.append(r, signal.Change{Account: r.request.Account, Job: &j})
	return err
}

// resultOf returns the result of an analysis. A panic fails the job and nothing else.
func (a *analyst) resultOf(ctx context.Context, r *run) (result json.RawMessage, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			result, err = nil, fmt.Errorf("job panicked: %v\n%s", reason, debug.Stack())
		}
	}()
	var found any
	ctx = market.For(ctx, r.request.Account)
	switch r.job.Kind {
	case signal.JobScan:
		found, err = a.scan(ctx, r)
	case signal.JobBacktest:
		found, err = a.backtest(ctx, r)
	default:
		err = fmt.Errorf("job of kind %q is not known", r.job.Kind)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(found)
}

// scanResult is the result of a scan. Its JSON is sent to clients.
type scanResult struct {
	Ranked   []scanned     `json:"ranked"`              // the greatest expected R after costs first
	NoSignal []scanSilence `json:"no_signal,omitempty"` // in the order of the request; of accounts' agents
	Errors   []scanFailure `json:"errors"`              // in the order of the request
}

// scanned is the signal that a run on an asset would have made. ExpectedRNet, Edge and
// Strength are members of its metadata, nil for agents without them.
type scanned struct {
	Asset        string           `json:"asset"`
	Direction    signal.Direction `json:"direction"`
	Confidence   float64          `json:"confidence"`
	ExpectedRNet *float64         `json:"expected_r_net"`
	Edge         *float64         `json:"edge"`
	Strength     *float64         `json:"strength"`
	Entry        *float64         `json:"entry_price"`
	Stop         *float64         `json:"stop_loss"`
	Target       *float64         `json:"take_profit"`
}

// scanSilence is an asset for which the agent has no signal.
type scanSilence struct {
	Asset  string `json:"asset"`
	Reason string `json:"reason"`
}

type scanFailure struct {
	Asset string           `json:"asset"`
	Code  signal.ErrorCode `json:"error_code"`
}

// scan evaluates each asset as a run does. The failure of an asset is part of the result.
func (a *analyst) scan(ctx context.Context, r *run) (scanResult, error) {
	assets := r.job.Assets
	found := make([]outcome, len(assets))
	var group errgroup.Group
	group.SetLimit(scanWorkers)
	for i, asset := range assets {
		group.Go(func() error {
			found[i] = a.scanOne(ctx, r, asset, i)
			return nil
		})
	}
	_ = group.Wait()
	if ctx.Err() != nil {
		return scanResult{}, ctx.Err()
	}
	result := scanResult{Ranked: []scanned{}, Errors: []scanFailure{}}
	for i, asset := range assets {
		switch o := &found[i]; {
		case o.refused != nil:
			result.Errors = append(result.Errors, scanFailure{asset, refusedError(o.refused).Code})
		case o.err != nil:
			result.Errors = append(result.Errors, scanFailure{asset, o.err.Code})
		case o.evaluation == nil:
			result.NoSignal = append(result.NoSignal, scanSilence{asset, o.reason})
		default:
			s := scannedOf(asset, o.evaluation)
			if r.request.Own != nil {
				s.Strength = nil // its agent has not said how strong it is
			}
			result.Ranked = append(result.Ranked, s)
		}
	}
	slices.SortStableFunc(result.Ranked, func(x, y scanned) int {
		return cmp.Or(cmp.Compare(y.rank(), x.rank()), cmp.Compare(y.Confidence, x.Confidence))
	})
	return result, nil
}

// rank returns the number by which scans rank, the greatest first. It is not the strength:
// the strongest signals of a strategy are not those that win most often.
func (s *scanned) rank() float64 {
	if s.ExpectedRNet == nil {
		return math.Inf(-1)
	}
	return *s.ExpectedRNet
}

// scanOne evaluates the asset at an index. Each has an id of its own, by which an agent that is asked again knows it.
func (a *analyst) scanOne(ctx context.Context, r *run, asset string, index int) outcome {
	one := run{id: r.id + signal.RunID("-"+strconv.Itoa(index+1)), request: r.request, job: r.job}
	one.request.Asset = asset
	return a.exec.compute(ctx, &one)
}

// scannedOf returns the evaluation of an asset as a scan shows it.
func scannedOf(asset string, c *evaluation) scanned {
	s := scanned{Asset: asset, Direction: c.Direction, Confidence: signal.RoundConfidence(c.Confidence)}
	if l := c.Levels; l != nil {
		s.Entry, s.Stop, s.Target = &l.Entry, &l.Stop, &l.Target
	}
	var metadata struct {
		ExpectedRNet *float64 `json:"expected_r_net"`
		Edge         *float64 `json:"edge"`
		Strength     *float64 `json:"strength"`
	}
	if json.Unmarshal(c.Metadata, &metadata) == nil {
		s.ExpectedRNet, s.Edge, s.Strength = metadata.ExpectedRNet, metadata.Edge, metadata.Strength
	}
	return s
}

// backtest replays a strategy over the stored bars.
func (a *analyst) backtest(ctx context.Context, r *run) (backtest.Result, error) {
	bars, o, err := a.replayed(ctx, r)
	if err != nil {
		return backtest.Result{}, err
	}
	return backtest.Run(ctx, bars, o)
}

// replayed returns the stored bars of a backtest, and its options.
func (a *analyst) replayed(ctx context.Context, r *run) ([]marketdata.Bar, backtest.Options, error) {
	req := &r.request
	seen, err := a.o.History.History(ctx, req.Asset, req.Timeframe)
	if err != nil {
		return nil, backtest.Options{}, err
	}
	o := backtest.Options{
		Origin:    originOf(req.Asset, &seen, a.o.Cost(seen.Asset.Class)),
		Strategy:  req.Strategy,
		Timeframe: req.Timeframe,
		Risk:      req.Risk,
		From:      milliOf(r.job.From),
		To:        milliOf(r.job.To),
		Slippage:  backtest.SlippageOn(req.Timeframe, a.o.Slippage),
	}
	pool, err := a.trading.pool(ctx, &seen, req.Timeframe)
	if err != nil {
		return nil, o, err
	}
	if pool != nil {
		key := seriesKeyOf(&seen, req.Timeframe)
		o.PoolKey = key.outcomeKey()
		o.Pool = pool.Replayed(o.PoolKey, seen.Bars)
	}
	if req.Strategy == strategy.Sentiment {
		since := newsSince(seen.Bars[0].OpenTime, &seen)
		if o.News, err = a.o.Market.News(ctx, req.Asset, since); err != nil {
			return nil, o, err
		}
	}
	return seen.Bars, o, nil
}

// milliOf returns t in milliseconds since 1970; 0 for the zero time.
func milliOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// CheckJob is Check for a job of any kind.
func CheckJob(agent signal.Agent, j *signal.Job) []Fault {
	switch j.Kind {
	case signal.JobScan:
		return checkScan(agent, j.Request, j.Assets)
	case signal.JobBacktest:
		return checkBacktest(agent, j.Request)
	case signal.JobRun, signal.JobAlert:
	}
	return Check(agent, j.Request)
}

// checkScan is Check for a scan of assets.
func checkScan(agent signal.Agent, req signal.RunRequest, assets []string) []Fault {
	faults := Check(agent, req)
	for i, asset := range assets {
		if asset == "" {
			continue
		}
		one := req
		one.Asset = asset
		for _, f := range Check(agent, one) {
			if f.Pointer == "/asset" {
				f.Pointer = fmt.Sprintf("/assets/%d", i)
				faults = append(faults, f)
			}
		}
	}
	return faults
}

// notBacktestable states why the runs of a category cannot be replayed.
var notBacktestable = map[signal.Category]string{
	signal.Weather: "past forecasts are not kept, and the weather that came is not what was known: " +
		"only runs of the trading agent can be replayed. " +
		"How weather signals ended is in GET /v1/scorecard?agent_id=weather",
	signal.Content: "content has no prices to win or to lose by: only runs of the trading agent can be replayed",
}

// checkBacktest is Check for a backtest. Only trading strategies need nothing but stored
// data.
func checkBacktest(agent signal.Agent, req signal.RunRequest) []Fault {
	if why := notBacktestable[agent.Category]; why != "" {
		return []Fault{{"/agent_id", codeInvalidValue, why}}
	}
	return Check(agent, req)
}
