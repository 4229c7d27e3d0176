package api

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestSignalsCloseAtTheirLevels(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	_, trader, _ := e2e.StartTrading(t, redis)
	prices := e2e.NewMarket(t, redis.Client())
	live := trader.Dial()
	live.Subscribe(`"channels":["signal.new","signal.updated","signal.closed"]`)
	win, lose := trader.Run("ACME", "momentum"), trader.Run("acme", "momentum")

	if got := trader.State(win.ID); got.Initial != win.Confidence || got.Final != nil || got.R != nil ||
		got.MFE != nil || got.MAE != nil {
		t.Errorf("open it is shown as %s", e2e.JsonOf(t, got))
	}

	// Prices between the levels, or of other assets, close nothing.
	prices.Tick("ACME", strconv.FormatFloat((*win.Entry+*win.Target)/2, 'f', 4, 64))
	price := *win.Target + (*win.Target-*win.Entry)/100
	prices.Tick("ACME", strconv.FormatFloat(price, 'f', -1, 64))
	live.Await("the closing", func(m e2e.Message) bool { return m.Type == "signal.closed" })
	e2e.Eventually(t, "both are closed", func() bool { return trader.Signals("status=closed").Total == 2 })
	for _, id := range []string{win.ID, lose.ID} {
		got := trader.State(id)
		if got.Status != "closed" || *got.Reason != "take_profit" || *got.Exit != *win.Target || *got.PnLPercent <= 0 ||
			got.ClosedAt == nil {
			t.Errorf("closed as %s", e2e.JsonOf(t, got))
		}
		if got.Initial != win.Confidence || *got.Final != win.Confidence || math.Abs(*got.R-1.5) > 1e-3 ||
			*got.MFE < *got.R || *got.MAE > 0 {
			t.Errorf("judged by %s", e2e.JsonOf(t, got))
		}
	}
	// A stop closes at the observed price.
	third := trader.Run("ACME", "momentum")
	gap := inTicks(*third.Stop - (*third.Entry-*third.Stop)/10)
	prices.Tick("ACME", strconv.FormatFloat(gap, 'f', -1, 64))
	e2e.Eventually(t, "the third is closed", func() bool { return trader.State(third.ID).Status == "closed" })
	if got := trader.State(third.ID); *got.Reason != "stop_loss" || *got.Exit != gap || *got.PnLPercent >= 0 {
		t.Errorf("closed as %s", e2e.JsonOf(t, got))
	}
	closings := 0
	live.Until("three closings", func(all []e2e.Message) bool {
		closings = strings.Count(e2e.Types(all), "signal.closed")
		return closings >= 3
	})
	if closings != 3 {
		t.Errorf("%d closings are sent", closings)
	}
	trader.Lists("status=open", 0)
}

// inTicks returns a price around 100 as a multiple of the tick in which exits are shown.
func inTicks(price float64) float64 { return math.Round(price*1e4) / 1e4 }

// TestMissedPricesAreCaughtUp kills the service, lets prices pass, and expects the
// same closings as without the kill.
func TestMissedPricesAreCaughtUp(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	redis := redistest.New(t)
	prices := e2e.NewMarket(t, redis.Client())
	prices.Open("ACME", "101.5")
	settings := e2e.ChildSettings(t, redis.URL(), "AUTH_REGISTRATION=open", "AUTH_JWT_KEYS="+e2e.SharedKeys)
	c := e2e.LaunchReady(t, settings...)
	trader := e2e.Register(c.Client(t))
	first := trader.AwaitRun("ACME", "momentum")
	second := trader.Run("ACME", "breakout")
	c.Kill()
	// The stop is reached for a moment while no service is running, then the target.
	at := time.Now()
	stop, target := inTicks(*first.Stop-(*first.Entry-*first.Stop)/20), *first.Target+(*first.Target-*first.Entry)/20
	prices.TickAt("ACME", *first.Entry, at)
	prices.TickAt("ACME", stop, at.Add(time.Millisecond))
	prices.TickAt("ACME", *first.Entry, at.Add(2*time.Millisecond))
	prices.TickAt("ACME", target, at.Add(3*time.Millisecond))
	c = e2e.LaunchReady(t, settings...)
	trader = trader.At(c.URL)
	e2e.Eventually(t, "both are closed", func() bool { return trader.Signals("status=closed").Total == 2 })
	got := trader.State(first.ID)
	want := at.Add(time.Millisecond).UTC().Format(signal.TimeLayout)
	if *got.Reason != "stop_loss" || *got.Exit != stop || *got.ClosedAt != want {
		t.Errorf("closed as %s, want at %s by %v", e2e.JsonOf(t, got), want, stop)
	}
	if first.Direction == second.Direction {
		if got := trader.State(second.ID); !slices.Contains([]string{"stop_loss", "take_profit"}, *got.Reason) {
			t.Errorf("the second closed as %s", e2e.JsonOf(t, got))
		}
	}
	// Closed signals stay closed after another start.
	c.Kill()
	c = e2e.LaunchReady(t, settings...)
	trader = trader.At(c.URL)
	third := trader.Run("ACME", "momentum")
	prices.Tick("ACME", fmt.Sprint(*third.Target+(*third.Target-*third.Entry)))
	e2e.Eventually(t, "the third is closed", func() bool { return trader.Signals("status=closed").Total == 3 })
	if again := trader.State(first.ID); e2e.JsonOf(t, again) != e2e.JsonOf(t, got) {
		t.Errorf("the first is %s now, was %s", e2e.JsonOf(t, again), e2e.JsonOf(t, got))
	}
}
