package service

import (
	"context"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/configs"
)

// speedOf returns how many times as fast as real time the bars of an asset go by at the
// source of its prices. Without prices, such as for a subject of content, it is barSpeed.
func (p *process) speedOf(ctx context.Context, asset string) int64 {
	if speed, err := p.market.Speed(ctx, asset); err == nil {
		return speed
	}
	return barSpeed(p.config.Market)
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
