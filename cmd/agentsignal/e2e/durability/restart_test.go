package durability

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// pictureOf returns what the service shows to the client: every list with many
// filters, and each signal, by their paths.
func pictureOf(c *e2e.Client, since string) map[string]string {
	c.TB.Helper()
	paths := []string{"/v1/account", "/v1/jobs?limit=100"}
	for _, query := range []string{"limit=100", "limit=7", "limit=7&offset=7", "limit=100&offset=20", "offset=1000",
		"direction=long&limit=100",
		"direction=short&limit=100", "status=open&limit=100", "status=closed&limit=100", "asset=acme&limit=100",
		"asset=GLOBEX&limit=100",
		"strategy=momentum&limit=100", "strategy=breakout&direction=long", "agent_id=trading&limit=1", "agent_id=seo",
		"min_confidence=0.4&limit=100",
		"min_confidence=0.43&status=open&limit=100", "min_confidence=0.9&limit=100", "min_confidence=0.98",
		"since=" + url.QueryEscape(since) + "&limit=100"} {
		paths = append(paths, "/v1/signals?"+query)
	}
	for _, s := range c.AllSignals() {
		paths = append(paths, "/v1/signals/"+s.ID, "/v1/signals/"+s.ID+"/history")
	}
	picture := map[string]string{}
	for _, path := range paths {
		picture[path] = c.Get(path).Ok(c.TB).Body
	}
	return picture
}

func TestARestartChangesNothingThatIsShown(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	c := e2e.TestConfig(t, redis.URL())
	s := e2e.Start(t, c)
	prices := e2e.NewMarket(t, redis.Client())
	for asset, price := range map[string]string{"ACME": "101.25", "Globex": "97.5"} {
		prices.Days(asset, 400)
		prices.Tick(asset, price)
		s.AwaitPrices(t, asset, signal.D1)
	}
	trader, account := s.Account(t)
	other, _ := s.Account(t)

	strategies, risks := []string{"momentum", "breakout", "mean_reversion"}, []string{"low", "medium", "high"}
	var made []string
	var since string
	for i := range 30 {
		body := e2e.RunBody([]string{"ACME", "Globex", "globex"}[i%3], strategies[i/3%3],
			`"timeframe":"1d"`, fmt.Sprintf(`"risk_level":%q`, risks[i%3]))
		w := e2e.Decode[e2e.WireSignal](t, trader.Post("/v1/agents/trading/run", body).Ok(t).Body)
		made = append(made, w.ID)
		if i == 15 {
			since = w.CreatedAt
		}
	}
	other.Run("ACME", "momentum", `"timeframe":"1d"`)
	trader.AwaitJob(trader.Submit("ACME", "momentum", `"timeframe":"1d"`).ID)

	// Some were updated, some closed, some both.
	for i, id := range made[:12] {
		confidence := .9 + float64(i)/1000
		if i%3 != 2 {
			data := fmt.Sprintf(`{"signal_id":%q,"confidence":%v}`, id, confidence)
			s.Change(t, account.ID, id, signal.SignalUpdated, data,
				func(s *signal.Signal) {
					s.Confidence = confidence
					at := s.CreatedAt.Add(time.Second)
					s.Updates = []signal.Update{{At: at, Confidence: confidence, Price: 103.25}}
				})
		}
		if i%3 != 0 {
			exit, percent, absolute := 105.5, 4.1234, 4.25
			s.Change(t, account.ID, id, signal.SignalClosed, fmt.Sprintf(`{"signal_id":%q}`, id),
				func(s *signal.Signal) {
					s.Confidence = confidence
					s.Closing = &signal.Closing{Reason: signal.CloseReasons[i%3], At: s.CreatedAt.Add(time.Minute),
						ExitPrice: &exit, PnLPercent: &percent, PnLAbsolute: &absolute, DurationMinutes: 1}
				})
		}
	}
	want := pictureOf(trader, since)
	// Closed signals are listed with their initial confidence.
	if n := len(e2e.Decode[e2e.Page](t, want["/v1/signals?min_confidence=0.9&limit=100"]).Signals); n != 4 {
		t.Fatalf("%d open signals have the new confidence, want 4", n)
	}
	if n := e2e.Decode[e2e.Page](t, want["/v1/signals?status=closed&limit=100"]).Total; n != 8 {
		t.Fatalf("%d signals are closed, want 8", n)
	}

	if body := want["/v1/signals/"+made[1]+"/history"]; strings.Count(body, `"type":`) != 3 ||
		!strings.Contains(body, `"confidence":0.901,"price":103.25},{"type":"closed"`) {
		t.Errorf("history of an updated and closed signal: %s", body)
	}

	for _, how := range []string{"in order", "with Redis, killed, and a new data directory"} {
		s.Stop(t)
		if how != "in order" {
			redis.Kill()
			redis.Restart()
			c.DataDir = t.TempDir()
		}
		s = e2e.Start(t, c)
		trader = trader.At(s.URL)
		got := pictureOf(trader, since)
		for _, path := range slices.Sorted(maps.Keys(want)) {
			if d := cmp.Diff(want[path], got[path]); d != "" {
				t.Errorf("%s after a restart %s (-want +got):\n%s", path, how, d)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d paths after a restart %s, before %d", len(got), how, len(want))
		}
		other.At(s.URL).Lists("", 1)
	}
	// New signals come before those read from the event log.
	next := trader.AwaitRun("ACME", "momentum", `"timeframe":"1d"`)
	trader.Lists("limit=2", 32, next.ID)
}
