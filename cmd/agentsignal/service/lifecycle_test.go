package service

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// wireState is a signal with its state, as GET /v1/signals/{id} answers.
type wireState struct {
	wireSignal
	Status       string
	UpdatedAt    string          `json:"updated_at"`
	ExpiresAt    string          `json:"expires_at"`
	ClosedAt     *string         `json:"closed_at"`
	Reason       *string         `json:"close_reason"`
	Exit         *float64        `json:"exit_price"`
	PnLPercent   *float64        `json:"pnl_percent"`
	PnLAbsolute  *float64        `json:"pnl_absolute"`
	Minutes      *int            `json:"duration_minutes"`
	Initial      float64         `json:"initial_confidence"`
	Final        *float64        `json:"final_confidence"`
	R            *float64        `json:"r"`
	MFE          *float64        `json:"mfe_r"`
	MAE          *float64        `json:"mae_r"`
	MetadataText json.RawMessage `json:"metadata"`
}

// state returns a signal with its state.
func (c *client) state(id string) wireState {
	c.tb.Helper()
	return decode[wireState](c.tb, c.get("/v1/signals/"+id).want(c.tb, 200).Body)
}

// tickAt writes a trade of a time.
func (m pricer) tickAt(asset string, price float64, at time.Time) {
	m.tb.Helper()
	m.add("market:ticks", []any{"asset", asset, "price", strconv.FormatFloat(price, 'f', -1, 64), "time",
		at.UnixMilli()})
}

func TestSignalsCloseAtTheirLevels(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	_, trader, _ := startTrading(t, redis)
	prices := newMarket(t, redis.Client())
	live := trader.dial()
	live.subscribe(`"channels":["signal.new","signal.updated","signal.closed"]`)
	win, lose := trader.run("ACME", "momentum"), trader.run("acme", "momentum")

	if got := trader.state(win.ID); got.Initial != win.Confidence || got.Final != nil || got.R != nil ||
		got.MFE != nil || got.MAE != nil {
		t.Errorf("open it is shown as %s", jsonOf(t, got))
	}

	// Prices between the levels, or of other assets, close nothing.
	prices.tick("ACME", strconv.FormatFloat((*win.Entry+*win.Target)/2, 'f', 4, 64))
	price := *win.Target + (*win.Target-*win.Entry)/100
	prices.tick("ACME", strconv.FormatFloat(price, 'f', -1, 64))
	live.await("the closing", func(m message) bool { return m.Type == "signal.closed" })
	eventually(t, "both are closed", func() bool { return trader.signals("status=closed").Total == 2 })
	for _, id := range []string{win.ID, lose.ID} {
		got := trader.state(id)
		if got.Status != "closed" || *got.Reason != "take_profit" || *got.Exit != *win.Target || *got.PnLPercent <= 0 ||
			got.ClosedAt == nil {
			t.Errorf("closed as %s", jsonOf(t, got))
		}
		if got.Initial != win.Confidence || *got.Final != win.Confidence || math.Abs(*got.R-1.5) > 1e-3 ||
			*got.MFE < *got.R || *got.MAE > 0 {
			t.Errorf("judged by %s", jsonOf(t, got))
		}
	}
	// A stop closes at the observed price.
	third := trader.run("ACME", "momentum")
	gap := inTicks(*third.Stop - (*third.Entry-*third.Stop)/10)
	prices.tick("ACME", strconv.FormatFloat(gap, 'f', -1, 64))
	eventually(t, "the third is closed", func() bool { return trader.state(third.ID).Status == "closed" })
	if got := trader.state(third.ID); *got.Reason != "stop_loss" || *got.Exit != gap || *got.PnLPercent >= 0 {
		t.Errorf("closed as %s", jsonOf(t, got))
	}
	closings := 0
	live.until("three closings", func(all []message) bool {
		closings = strings.Count(types(all), "signal.closed")
		return closings >= 3
	})
	if closings != 3 {
		t.Errorf("%d closings are sent", closings)
	}
	trader.lists("status=open", 0)
}

// inTicks returns a price around 100 as a multiple of the tick in which exits are shown.
func inTicks(price float64) float64 { return math.Round(price*1e4) / 1e4 }

// TestMissedPricesAreCaughtUp kills the service, lets prices pass, and expects the
// same closings as without the kill.
func TestMissedPricesAreCaughtUp(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	prices := newMarket(t, redis.Client())
	prices.open("ACME", "101.5")
	settings := childSettings(t, redis.URL(), "AUTH_REGISTRATION=open", "AUTH_JWT_KEYS="+sharedKeys)
	c := launchReady(t, settings...)
	trader := register(c.client(t))
	first := trader.awaitRun("ACME", "momentum")
	second := trader.run("ACME", "breakout")
	c.kill()
	// The stop is reached for a moment while no service is running, then the target.
	at := time.Now()
	stop, target := inTicks(*first.Stop-(*first.Entry-*first.Stop)/20), *first.Target+(*first.Target-*first.Entry)/20
	prices.tickAt("ACME", *first.Entry, at)
	prices.tickAt("ACME", stop, at.Add(time.Millisecond))
	prices.tickAt("ACME", *first.Entry, at.Add(2*time.Millisecond))
	prices.tickAt("ACME", target, at.Add(3*time.Millisecond))
	c = launchReady(t, settings...)
	trader = trader.at(c.url)
	eventually(t, "both are closed", func() bool { return trader.signals("status=closed").Total == 2 })
	got := trader.state(first.ID)
	want := at.Add(time.Millisecond).UTC().Format(signal.TimeLayout)
	if *got.Reason != "stop_loss" || *got.Exit != stop || *got.ClosedAt != want {
		t.Errorf("closed as %s, want at %s by %v", jsonOf(t, got), want, stop)
	}
	if first.Direction == second.Direction {
		if got := trader.state(second.ID); !slices.Contains([]string{"stop_loss", "take_profit"}, *got.Reason) {
			t.Errorf("the second closed as %s", jsonOf(t, got))
		}
	}
	// Closed signals stay closed after another start.
	c.kill()
	c = launchReady(t, settings...)
	trader = trader.at(c.url)
	third := trader.run("ACME", "momentum")
	prices.tick("ACME", fmt.Sprint(*third.Target+(*third.Target-*third.Entry)))
	eventually(t, "the third is closed", func() bool { return trader.signals("status=closed").Total == 3 })
	if again := trader.state(first.ID); jsonOf(t, again) != jsonOf(t, got) {
		t.Errorf("the first is %s now, was %s", jsonOf(t, again), jsonOf(t, got))
	}
}
