package service

import (
	"testing"

	"github.com/agentsignal/agentsignal/configs"
)

func TestMarketSpeedIsTheSimulatedMarkets(t *testing.T) {
	t.Parallel()
	for sources, want := range map[string]int64{"simulated": 60, "stream, simulated": 60, "binance,simulated": 60,
		"stream": 1, "binance,stream": 1, "alpaca": 1} {
		if got := barSpeed(configs.Market{Source: sources, Speed: 60}); got != want {
			t.Errorf("%s: %d times real time, want %d", sources, got, want)
		}
	}
}
