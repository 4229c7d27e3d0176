package market

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/spelling"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	// maxBars is how many bars a series keeps.
	maxBars = 1500
	// maxTicks and maxTickAge bound the streams of ticks, maxClosed the stream of closed bars.
	// A reader that lags farther behind reads the records instead. maxTicks counts entries: a round is
	// one, and 17 ticks in it take the memory of six entries of a tick each.
	maxTicks   = 1_000_000
	maxTickAge = 15 * time.Minute
	maxClosed  = 100_000
	// readMax is how many ticks, bars or news one read takes at most. Rounds are read whole, so that the last
	// one may exceed it.
	readMax = 2000
	// recentChunk is how many series one pipeline reads.
	recentChunk = 500
)

var (
	storeScript  = redisclient.Script(scripts, "store")
	fillScript   = redisclient.Script(scripts, "fill")
	roundScript  = redisclient.Script(scripts, "round")
	settleScript = redisclient.Script(scripts, "settle")
	trimScript   = redisclient.Script(scripts, "trim")
)

// errNotFeeder refuses the write of a former feeder.
var errNotFeeder = redisclient.Refused(signal.CodeNotOwner, "another node feeds the market")

// Feed is what the feeder keeps: its state, bars and assets.
type Feed struct{ s *redisclient.Client }

// State returns the state of the feeder.
func (m *Feed) State(ctx context.Context) (marketdata.State, error) {
	var state marketdata.State
	p := m.s.RDB.TxPipeline()
	fields := p.HGetAll(ctx, m.s.MarketStateKey())
	assets := p.HGetAll(ctx, m.s.MarketAssetsKey())
	live := p.HGetAll(ctx, m.s.MarketLiveKey())
	if err := redisclient.Execute(ctx, p); err != nil {
		return state, redisclient.Failed(err, "read market state")
	}
	state.Ticks, _ = signal.ParsePosition(fields.Val()["ticks"])
	state.Bars, _ = signal.ParsePosition(fields.Val()["bars"])
	if c := fields.Val()["checkpoint"]; c != "" {
		state.Checkpoint = []byte(c)
	}
	for _, record := range assets.Val() {
		a, err := unpackAsset(record)
		if err != nil {
			return state, err
		}
		state.Assets = append(state.Assets, a)
	}
	for asset, record := range live.Val() {
		l, err := unpackLive(asset, record)
		if err != nil {
			return state, err
		}
		state.Live = append(state.Live, l)
	}
	return state, nil
}

// Store stores step as a whole. KindConflict: another feeder took over, and nothing was stored.
// Store may be repeated after any other error.
func (m *Feed) Store(ctx context.Context, step *marketdata.Step) error {
	keys := []string{
		m.s.FeederEpochKey(), m.s.MarketStateKey(), m.s.MarketClosedKey(),
		m.s.MarketAssetsKey(), m.s.MarketLiveKey(), m.s.MarketNewsKey(),
	}
	args := []any{step.Epoch, maxBars, step.Ticks.String(), step.Bars.String(), step.Checkpoint,
		len(step.Assets), len(step.Live), len(step.News), len(step.Closed), len(step.Removed)}
	for i := range step.Assets {
		args = append(args, spelling.Fold(step.Assets[i].Symbol), packAsset(&step.Assets[i]))
	}
	for i := range step.Live {
		args = append(args, step.Live[i].Asset, packLive(&step.Live[i]))
	}
	for i := range step.News {
		args = append(args, packNews(&step.News[i]))
	}
	for i := range step.Closed {
		b := &step.Closed[i]
		keys = append(keys, m.s.BarsKey(b.Asset, b.Timeframe))
		args = append(args, b.Asset, string(b.Timeframe), b.OpenTime, packBar(b))
	}
	for _, symbol := range step.Removed {
		args = append(args, spelling.Fold(symbol), symbol)
	}
	stored, err := storeScript.Run(ctx, m.s.RDB, keys, args...).Int64()
	if err != nil {
		return redisclient.Failed(err, "store market step")
	}
	if stored == 0 {
		return errNotFeeder
	}
	return nil
}

// Fill writes whole series, each atomically. KindConflict: another feeder took over, and some of
// the series may have been written. Fill may be repeated after any other error.
func (m *Feed) Fill(ctx context.Context, epoch int64, series []marketdata.Series) error {
	if len(series) == 0 {
		return nil
	}
	if err := fillScript.Load(ctx, m.s.RDB).Err(); err != nil {
		return redisclient.Failed(err, "load script")
	}
	var results []*redis.Cmd
	p := m.s.RDB.Pipeline()
	for _, s := range series {
		reset := 0
		if s.Reset {
			reset = 1
		}
		args := make([]any, 0, 5+2*len(s.Bars))
		args = append(args, epoch, maxBars, s.Asset, string(s.Timeframe), reset)
		for i := max(0, len(s.Bars)-maxBars); i < len(s.Bars); i++ {
			args = append(args, s.Bars[i].OpenTime, packBar(&s.Bars[i]))
		}
		keys := []string{
			m.s.FeederEpochKey(), m.s.MarketStateKey(), m.s.MarketClosedKey(),
			m.s.BarsKey(s.Asset, s.Timeframe),
		}
		results = append(results, fillScript.EvalSha(ctx, p, keys, args...))
	}
	if err := redisclient.Execute(ctx, p); err != nil {
		return redisclient.Failed(err, "fill market series")
	}
	for _, r := range results {
		if stored, _ := r.Int64(); stored == 0 {
			return errNotFeeder
		}
	}
	return nil
}

// decimal writes a number without an exponent.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Trim drops old and excess ticks (those from outside only up to processed), old closed bars, and
// news from before newsSince. now is the time by Redis' clock.
func (m *Feed) Trim(ctx context.Context, now time.Time, processed signal.Position, newsSince time.Time) error {
	old := now.Add(-maxTickAge).UnixMilli()
	oldest, oldestGiven := strconv.FormatInt(old, 10), strconv.FormatInt(min(old, processed.MS), 10)
	if err := m.trimRead(ctx, m.s.MarketTicksKey(), processed, "~", oldestGiven); err != nil {
		return err
	}
	p := m.s.RDB.Pipeline()
	p.XTrimMaxLenApprox(ctx, m.s.MarketTicksKey(), maxTicks, 0)
	p.XTrimMinIDApprox(ctx, m.s.MarketOwnTicksKey(), oldest, 0)
	p.XTrimMaxLenApprox(ctx, m.s.MarketOwnTicksKey(), maxTicks, 0)
	p.XTrimMinIDApprox(ctx, m.s.MarketClosedKey(), oldest, 0)
	p.XTrimMaxLenApprox(ctx, m.s.MarketClosedKey(), maxClosed, 0)
	p.XTrimMinID(ctx, m.s.MarketNewsKey(), strconv.FormatInt(newsSince.UnixMilli(), 10))
	return redisclient.Failed(redisclient.Execute(ctx, p), "trim market streams")
}

// TrimBars drops the entries of market:bars up to processed.
func (m *Feed) TrimBars(ctx context.Context, processed signal.Position) error {
	return m.trimRead(ctx, m.s.MarketBarsKey(), processed, "=", processed.Plus(1).String())
}

// trimRead drops the entries of a stream from outside with ids below minID, exactly (=) or about (~), unless the stream
// begins again with ids below processed, up to which it was read: then its entries may be unread.
func (m *Feed) trimRead(ctx context.Context, key string, processed signal.Position, how, minID string) error {
	err := trimScript.Run(ctx, m.s.RDB, []string{key}, processed.String(), how, minID).Err()
	return redisclient.Failed(err, "trim %s", key)
}

func unpackBars(asset string, tf signal.Timeframe, packed []string) ([]marketdata.AssetBar, error) {
	bars := make([]marketdata.AssetBar, 0, len(packed))
	for _, p := range packed {
		b, err := unpackBar(p)
		if err != nil {
			return nil, err
		}
		b.Asset, b.Timeframe = asset, tf
		bars = append(bars, b)
	}
	return bars, nil
}
