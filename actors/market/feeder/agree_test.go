package feeder

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
)

// simulatedBegin is when the market begins, within a bar of every timeframe.
const simulatedBegin = 1_795_253_417_345

func TestTicksAndBarsAgree(t *testing.T) {
	t.Parallel()
	s := simulated.New(60, 1, specsOf("SOL"))
	s.Open(t.Context(), nil, 0, simulatedBegin)
	o := s.Advance(simulatedBegin + 30_000)
	b, book := newTestBuilder()
	b.asset, b.grid = "SOL", prices.Grid{Speed: 60}
	for _, x := range o.Ticks {
		b.tick(x.Tick)
	}
	if n := len(o.Ticks); n < 299 || n > 301 {
		t.Errorf("%d ticks in 30 s", n)
	}
	compared := 0
	for _, want := range o.Closed {
		if want.OpenTime < simulatedBegin {
			continue
		}
		compared++
		got := book.bars[want.Timeframe][want.OpenTime]
		if d := gocmp.Diff(want, got); d != "" {
			t.Errorf("%s (-market +ticks):\n%s", want.Timeframe, d)
		}
	}
	if compared < 28 {
		t.Errorf("only %d bars compared", compared)
	}
}
