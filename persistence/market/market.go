package market

import (
	"context"
	"embed"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/spelling"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
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

//go:embed scripts
var scripts embed.FS

var (
	storeScript  = redisclient.Script(scripts, "store")
	fillScript   = redisclient.Script(scripts, "fill")
	ticksScript  = redisclient.Script(scripts, "ticks")
	roundScript  = redisclient.Script(scripts, "round")
	settleScript = redisclient.Script(scripts, "settle")
	trimScript   = redisclient.Script(scripts, "trim")
)

// Store keeps the lease and the state of the feeder, the streams of prices, and the records of
// bars, assets and news.
type Store struct {
	s *redisclient.Client
	// rounds is how many entries of the feeder's stream have readMax ticks, by the last read; 0 before the first.
	rounds atomic.Int64
}

// New returns the market that c reads and writes.
func New(c *redisclient.Client) *Store { return &Store{s: c} }

// errNotFeeder refuses the write of a former feeder.
var errNotFeeder = redisclient.Refused(signal.CodeNotOwner, "another node feeds the market")

// lease returns the lease of the feeder.
func (m *Store) lease() eventlog.Lease {
	return eventlog.NewLease(m.s, m.s.FeederKey(), m.s.FeederEpochKey(), "the market")
}

// TakeLease makes node the feeder for ttl and returns the epoch of its lease, or 0 and the
// current feeder if that is another node. A node that is the feeder already gets a new epoch,
// which ends its former lease.
func (m *Store) TakeLease(ctx context.Context, node string, ttl time.Duration) (epoch int64, feeder string, err error) {
	return m.lease().Take(ctx, node, ttl)
}

// RenewLease extends the lease with epoch. KindConflict: it has ended.
func (m *Store) RenewLease(ctx context.Context, node string, epoch int64, ttl time.Duration) error {
	return m.lease().Renew(ctx, node, epoch, ttl)
}

// ReleaseLease ends the lease with epoch, unless it has ended already, so that another node need
// not wait for its end.
func (m *Store) ReleaseLease(ctx context.Context, node string, epoch int64) error {
	return m.lease().Release(ctx, node, epoch)
}

// Feeder returns the node that feeds the market and the epoch of its lease, or "" and 0.
func (m *Store) Feeder(ctx context.Context) (node string, epoch int64, err error) {
	return m.lease().Holder(ctx)
}

// State returns the state of the feeder.
func (m *Store) State(ctx context.Context) (marketdata.State, error) {
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
func (m *Store) Store(ctx context.Context, step *marketdata.Step) error {
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
func (m *Store) Fill(ctx context.Context, epoch int64, series []marketdata.Series) error {
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

// AppendRound writes ticks of the feeder's sources in order as one entry, which builds before rounds do
// not read. KindConflict: another feeder took over, and nothing was written.
func (m *Store) AppendRound(ctx context.Context, epoch int64, ticks []marketdata.AssetTick) error {
	if len(ticks) == 0 {
		return nil
	}
	keys := []string{m.s.FeederEpochKey(), m.s.MarketOwnTicksKey()}
	stored, err := roundScript.Run(ctx, m.s.RDB, keys, epoch, packRound(ticks)).Int64()
	if err != nil {
		return redisclient.Failed(err, "append round of ticks")
	}
	if stored == 0 {
		return errNotFeeder
	}
	return nil
}

// AppendTicks writes ticks as AppendRound does, as an entry each, which earlier builds read as well.
func (m *Store) AppendTicks(ctx context.Context, epoch int64, ticks []marketdata.AssetTick) error {
	if len(ticks) == 0 {
		return nil
	}
	args := make([]any, 0, 1+6*len(ticks))
	args = append(args, epoch)
	for _, t := range ticks {
		missed := ""
		if t.Missed != 0 {
			missed = strconv.FormatInt(t.Missed, 10)
		}
		args = append(args, t.Asset, t.Source, decimal(t.Price), decimal(t.Volume), t.Time, missed)
	}
	keys := []string{m.s.FeederEpochKey(), m.s.MarketOwnTicksKey()}
	stored, err := ticksScript.Run(ctx, m.s.RDB, keys, args...).Int64()
	if err != nil {
		return redisclient.Failed(err, "append ticks")
	}
	if stored == 0 {
		return errNotFeeder
	}
	return nil
}

// GiveTicks writes ticks to market:ticks, which is open to every source of prices.
func (m *Store) GiveTicks(ctx context.Context, ticks []marketdata.AssetTick) error {
	if len(ticks) == 0 {
		return nil
	}
	p := m.s.RDB.Pipeline()
	for _, t := range ticks {
		p.XAdd(ctx, &redis.XAddArgs{Stream: m.s.MarketTicksKey(),
			Values: []any{"asset", t.Asset, "price", decimal(t.Price), "volume", decimal(t.Volume), "time", t.Time}})
	}
	return redisclient.Failed(redisclient.Execute(ctx, p), "give ticks")
}

// decimal writes a number without an exponent.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Trim drops old and excess ticks (those from outside only up to processed), old closed bars, and
// news from before newsSince. now is the time by Redis' clock.
func (m *Store) Trim(ctx context.Context, now time.Time, processed signal.Position, newsSince time.Time) error {
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
func (m *Store) TrimBars(ctx context.Context, processed signal.Position) error {
	return m.trimRead(ctx, m.s.MarketBarsKey(), processed, "=", processed.Plus(1).String())
}

// trimRead drops the entries of a stream from outside with ids below minID, exactly (=) or about (~), unless the stream
// begins again with ids below processed, up to which it was read: then its entries may be unread.
func (m *Store) trimRead(ctx context.Context, key string, processed signal.Position, how, minID string) error {
	err := trimScript.Run(ctx, m.s.RDB, []string{key}, processed.String(), how, minID).Err()
	return redisclient.Failed(err, "trim %s", key)
}

// EachRecent calls f with the newest bars of each asset and the timeframe, at most count of each,
// ascending.
func (m *Store) EachRecent(
	ctx context.Context, assets []string, tf signal.Timeframe, count int,
	f func(asset string, bars []marketdata.AssetBar),
) error {
	for len(assets) > 0 {
		chunk := assets[:min(recentChunk, len(assets))]
		assets = assets[len(chunk):]
		results := make([]*redis.StringSliceCmd, len(chunk))
		p := m.s.RDB.Pipeline()
		for i, asset := range chunk {
			results[i] = p.ZRange(ctx, m.s.BarsKey(asset, tf), int64(-count), -1)
		}
		if err := redisclient.Execute(ctx, p); err != nil {
			return redisclient.Failed(err, "read bars")
		}
		for i, asset := range chunk {
			bars, err := unpackBars(asset, tf, results[i].Val())
			if err != nil {
				return err
			}
			f(asset, bars)
		}
	}
	return nil
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

// Bars returns the bars of an asset and timeframe, ascending, and the number of the last closed
// bar that was published before.
func (m *Store) Bars(ctx context.Context, asset string, tf signal.Timeframe) ([]marketdata.AssetBar, int64, error) {
	p := m.s.RDB.TxPipeline()
	packed := p.ZRange(ctx, m.s.BarsKey(asset, tf), -maxBars, -1)
	count := p.HGet(ctx, m.s.MarketStateKey(), "count")
	if err := redisclient.Execute(ctx, p); err != nil {
		return nil, 0, redisclient.Failed(err, "read bars")
	}
	bars, err := unpackBars(asset, tf, packed.Val())
	if err != nil {
		return nil, 0, err
	}
	n, _ := strconv.ParseInt(count.Val(), 10, 64)
	return bars, n, nil
}

// Asset returns the record of the asset with the given key and its newest prices, or KindNotFound.
// A key is the symbol with its ASCII letters in upper case.
func (m *Store) Asset(ctx context.Context, key string) (marketdata.Asset, marketdata.Live, error) {
	record, err := m.s.RDB.HGet(ctx, m.s.MarketAssetsKey(), key).Result()
	if errors.Is(err, redis.Nil) {
		return marketdata.Asset{}, marketdata.Live{}, signal.NotFound("asset")
	}
	if err != nil {
		return marketdata.Asset{}, marketdata.Live{}, redisclient.Failed(err, "read asset")
	}
	asset, err := unpackAsset(record)
	if err != nil {
		return asset, marketdata.Live{}, err
	}
	record, err = m.s.RDB.HGet(ctx, m.s.MarketLiveKey(), asset.Symbol).Result()
	if errors.Is(err, redis.Nil) {
		return asset, marketdata.Live{Asset: asset.Symbol}, nil
	}
	if err != nil {
		return asset, marketdata.Live{}, redisclient.Failed(err, "read live prices")
	}
	live, err := unpackLive(asset.Symbol, record)
	return asset, live, err
}
