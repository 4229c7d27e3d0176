package market

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// startingStore is a store in which the simulated market begins between two reads.
type startingStore struct {
	*fakeStore
	reads int
}

func (s *startingStore) State(context.Context) (marketdata.State, error) {
	if s.reads == 0 {
		return marketdata.State{}, nil
	}
	return marketdata.State{Assets: []marketdata.Asset{{Symbol: "BTC"}}}, nil
}

func (s *startingStore) Follow(_ context.Context, closed, _ signal.Position, _ time.Duration) (
	[]marketdata.ClosedBar, []marketdata.NewsItem, signal.Position, signal.Position, bool, error) {
	var news []marketdata.NewsItem
	if s.reads++; s.reads == 2 {
		news = []marketdata.NewsItem{{ID: "1", At: 1, Headline: "Bitcoin rises", Symbols: []string{"BTC"}}}
	}
	return nil, news, closed, signal.Position{MS: int64(s.reads)}, false, nil
}

// A reader that starts before the simulated market must not take the empty stream for all news.
func TestNewsWaitForTheSimulatedMarket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newFake(t, &fakeStore{}, markettest.NewClock())
		m.bars.simulates, m.bars.store = true, &startingStore{fakeStore: &fakeStore{}}
		go func() {
			for range 2 {
				time.Sleep(time.Second)
				if _, err := m.bars.read(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}()
		if news, err := m.News(t.Context(), "BTC", 0); err != nil || len(news) != 1 {
			t.Errorf("there are %d items of news: %v", len(news), err)
		}
	})
}

// Series waits for the simulated market while it stands still, and not for a real source.
func TestSeriesWaitsForTheSimulatedMarket(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		source  string
		resumes time.Duration // zero: never
		takes   time.Duration
		stale   bool
	}{
		"it goes on":      {source: simulated.Name, resumes: 4 * time.Second, takes: 4 * time.Second},
		"it does not":     {source: simulated.Name, takes: 20*time.Second - reportTime, stale: true},
		"a source is not": {source: "binance", stale: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := markettest.NewClock()
				now := c.Now().UnixMilli()
				old := marketdata.Tick{Price: 2, Time: now - prices.StaleCrypto - 1}
				m := newFake(t, &fakeStore{
					asset: marketdata.Asset{Symbol: "X", Class: assets.Crypto, Speed: 1, Source: tt.source},
					live:  marketdata.Live{Asset: "X", Last: old},
					bars:  hours(5, now, 1),
				}, c)
				if tt.resumes != 0 {
					time.AfterFunc(tt.resumes, func() {
						w := (*m.loader.watches.all.Load())[assets.Fold("X")]
						w.last.Store(&marketdata.Tick{Price: 2, Time: c.Now().UnixMilli()})
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				begun := time.Now()
				_, err := m.Series(ctx, "X", signal.H1)
				took := time.Since(begun)
				if (err != nil) != tt.stale || tt.stale && markettest.RunError(t, err).Code != signal.StaleData {
					t.Errorf("the error is %v", err)
				} else if tt.stale && markettest.RunError(t, err).Passing != (tt.source == simulated.Name) {
					t.Errorf("the error passes by itself: %+v", err)
				}
				if took < tt.takes || took >= tt.takes+time.Second {
					t.Errorf("it took %s, want %s", took, tt.takes)
				}
			})
		})
	}
}
