package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/feeder"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/configs"
	marketstore "github.com/agentsignal/agentsignal/persistence/market"
)

// prices is the market and what feeds it.
type prices struct {
	market           *market.Market
	feeder           *feeder.Feeder
	simulatedWeather *weather.Simulated // moves simulated prices, or nil
	now              func() time.Time
	settings         configs.Market
}

func newPrices(
	e environment, s *storage, node string, system *engine.System, store *marketstore.Store, simulatedWeather *weather.Simulated,
) (*prices, error) {
	c := e.config.Market
	m := market.New(system, market.Options{
		Store:   store,
		Sources: c.Source,
		Speed:   c.Speed,
		Now:     s.store.Client.Now,
		Log:     e.log,
	})
	var anomaly func(commodity string, at time.Time) float64
	if simulatedWeather != nil {
		anomaly = simulatedWeather.Anomaly
	}
	f, err := feeder.New(store, feeder.Options{
		Node:    node,
		Sources: c.Source,
		Speed:   c.Speed,
		Weather: anomaly,
		Lease:   time.Duration(e.config.Lease),
		Real:    RealSources(c),
		Now:     s.store.Client.Now,
		Log:     e.log,
		Metrics: feeder.NewMetrics(e.registry),
	})
	return &prices{m, f, simulatedWeather, s.store.Client.Now, c}, err
}

// feed feeds the market. It first computes the simulated weather, which takes a moment, so that prices
// do not wait for it once this node is the feeder.
func (p *prices) feed(ctx context.Context) error {
	if p.simulatedWeather != nil {
		p.simulatedWeather.Warm(ctx, p.now())
	}
	return p.feeder.Run(ctx)
}

// speedOf returns how many times as fast as real time the bars of an asset go by at the
// source of its prices. Without prices, such as for a subject of content, it is barSpeed.
func (p *prices) speedOf(ctx context.Context, asset string) int64 {
	if speed, err := p.market.Assets.Speed(ctx, asset); err == nil {
		return speed
	}
	return barSpeed(p.settings)
}

// last returns the last prices of all assets for dashboards.
func (p *prices) last(ctx context.Context) ([]dashboard.LastPrice, error) {
	assets, err := p.market.Assets.Prices(ctx)
	if err != nil {
		return nil, err
	}
	var all []dashboard.LastPrice
	for i := range assets {
		if a := &assets[i]; !a.LastAt.IsZero() {
			all = append(all, dashboard.LastPrice{Asset: a.Symbol, Source: a.Source, Price: a.Last, At: a.LastAt})
		}
	}
	return all, nil
}

// barSpeed returns the speed of bars without an asset: market.speed if the market is
// simulated, otherwise 1.
func barSpeed(m configs.Market) int64 {
	sources := strings.FieldsFunc(m.Source, func(c rune) bool { return c == ',' || c == ' ' })
	if slices.Contains(sources, "simulated") {
		return m.Speed
	}
	return 1
}
