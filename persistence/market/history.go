package market

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// History reads the stored bars and assets.
type History struct{ s *redisclient.Client }

// EachRecent calls f with the newest bars of each asset and the timeframe, at most count of each,
// ascending.
func (m *History) EachRecent(
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

// Bars returns the bars of an asset and timeframe, ascending, and the number of the last closed
// bar that was published before.
func (m *History) Bars(ctx context.Context, asset string, tf signal.Timeframe) ([]marketdata.AssetBar, int64, error) {
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
func (m *History) Asset(ctx context.Context, key string) (marketdata.Asset, marketdata.Live, error) {
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
