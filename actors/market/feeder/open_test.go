package feeder

import (
	"context"
	"errors"
	"testing"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// A history takes seconds on a busy machine. A process that ends does not wait for it.
func TestHistoryEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := simulated.New(60, 1, specsOf("BTC", "ETH"))
	o := s.Open(ctx, nil, 0, markettest.NewClock().Now().UnixMilli())
	for _, l := range o.Live {
		if l.Last.Time != 0 {
			t.Errorf("%s has a price: %v", l.Asset, l.Last)
		}
	}
	f := newFeeder(t, &stepStore{}, Options{Node: "n1", Sources: simulated.Name})
	lead := newLeadership(f, 1, f.o.Now())
	if err := lead.simulate(ctx, &marketdata.State{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if lead.market != nil {
		t.Error("the market is open")
	}
}
