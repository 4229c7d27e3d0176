package service

import (
	"context"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/configs"
)

// speedOf returns how many times as fast as real time the bars of an asset go by: those
// of the source that gives its prices. What nobody has given a price of, as a subject of
// content, goes by barSpeed.
func (p *process) speedOf(ctx context.Context, asset string) int64 {
	if speed, err := p.market.Speed(ctx, asset); err == nil {
		return speed
	}
	return barSpeed(p.config.Market)
}

// barSpeed returns how many times as fast as real time bars go by where no asset says it:
// market.speed is the simulated market's, all others have real time.
func barSpeed(m configs.Market) int64 {
	sources := strings.FieldsFunc(m.Source, func(c rune) bool { return c == ',' || c == ' ' })
	if slices.Contains(sources, "simulated") {
		return m.Speed
	}
	return 1
}
