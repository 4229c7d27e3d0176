package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// Settings of TestScreenshots, in the environment.
const (
	shotsDir  = "TEST_SCREENSHOTS"      // where the pictures go; unset: the test is skipped
	shotsOnly = "TEST_SCREENSHOTS_ONLY" // a regular expression of the names of the pictures; unset: all
)

// What the pictures need: a scorecard has percentages from 30 closed signals on, and its
// reliability diagram from 30 in a bucket.
const (
	shotsClosed   = 120 // trading signals
	shotsFailed   = 3   // deliveries
	shotsSpeed    = 300 // of the simulated market; that of the demo is 60
	shotsPoll     = 2 * time.Second
	shotsPatience = 10 * time.Minute
)

// viewport is a size at which pictures are taken.
type viewport struct{ width, height int64 }

var viewports = []viewport{{390, 844}, {1280, 800}, {1920, 1080}}

// scene is a page of the console in one state.
type scene struct {
	name  string
	steps []string // of page.js, from any other page
	undo  string   // after it
}

// TestScreenshots takes pictures of every page of the console with the data of the demo, in all
// sizes and both themes. Its result is for eyes: make screenshots runs it.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv(shotsDir)
	if dir == "" {
		t.Skipf("it takes pictures for eyes and needs minutes: make screenshots runs it (%s=DIR)", shotsDir)
	}
	e2e.Must(t, os.MkdirAll(dir, 0o755))
	demo := startShotsDemo(t)
	demo.fill()
	line := newCutter(t, demo.client.URL)
	camera := newCamera(t, dir, line.url)
	camera.take(scene{name: "signin", steps: []string{`await shows("Sign in")`}})
	evaluate[any](t, camera.page, fmt.Sprintf("signIn(%q, %q)", demo.email, demo.password))
	demo.awaitRows(camera)
	for _, s := range demo.scenes() {
		camera.take(s)
	}
	line.set(true)
	camera.take(scene{name: "offline", steps: []string{`location.hash = "#/live"`, `await shows("Offline")`}})
	line.set(false)
	_, account := demo.service.Account(t)
	camera = newCamera(t, dir, demo.client.URL)
	evaluate[any](t, camera.page, fmt.Sprintf("signIn(%q, %q)", account.Email, e2e.Password))
	camera.take(scene{name: "live-empty", steps: []string{`await shows("No signals yet")`}})
}

// shotsDemo is a demo with enough to show.
type shotsDemo struct {
	t               *testing.T
	service         *e2e.Service
	client          *e2e.Client
	email, password string
	failing         string // id of a webhook
}

func startShotsDemo(t *testing.T) *shotsDemo {
	t.Helper()
	d := &shotsDemo{t: t}
	config := configs.Default()
	config.HTTP.Addr, config.DataDir, config.Market.Speed = "127.0.0.1:0", t.TempDir(), shotsSpeed
	config.Redis.URL = configs.Secret(redistest.New(t).URL())
	config.Webhooks.AllowedNetworks, config.Webhooks.AllowHTTP = []string{"127.0.0.0/8", "::1/128"}, true
	config.Webhooks.RetrySchedule = nil
	for range 3 {
		config.Webhooks.RetrySchedule = append(config.Webhooks.RetrySchedule, configs.Duration(2*time.Second))
	}
	var printed e2e.Journal
	d.service = e2e.StartWith(t, config, service.Options{Demo: &printed})
	d.client = d.service.Client(t)
	d.email = "demo@example.com"
	e2e.Eventually(t, "the demo has printed its password", func() bool {
		found := regexp.MustCompile(`password +(\S+)`).FindStringSubmatch(printed.String())
		if found != nil {
			d.password = found[1]
		}
		return found != nil
	})
	d.client = d.client.With(d.client.Login(d.email, d.password).Access)
	return d
}

// fill makes what the demo has not: signals of all agents, keys, webhooks and jobs.
func (d *shotsDemo) fill() {
	c := d.client
	for _, schedule := range e2e.Decode[struct {
		Schedules []struct {
			ID        string `json:"schedule_id"`
			Timeframe string
		}
	}](d.t, c.Get("/v1/schedules?limit=100").Ok(d.t).Body).Schedules {
		if schedule.Timeframe == "1m" { // at the speed of the pictures a bar would be a fraction of a second
			c.Do(http.MethodDelete, "/v1/schedules/"+schedule.ID, "").Want(d.t, http.StatusNoContent)
		}
	}
	for _, body := range []string{
		`{"agent_id":"trading","assets":["BTC","ETH","SOL","EURUSD","GBPUSD","USDJPY"],"strategy":"mean_reversion",
			"timeframe":"1h","every":"bar","max_open":2}`,
		`{"agent_id":"trading","assets":["NVDA","XAUUSD","SPY","QQQ","AAPL","oil"],"strategy":"breakout",
			"timeframe":"1h","every":"bar","max_open":2}`,
		`{"agent_id":"trading","assets":["BTC","ETH","EURUSD","SPY","XAUUSD"],"strategy":"momentum",
			"timeframe":"1h","every":"bar","max_open":2}`,
	} {
		c.Post("/v1/schedules", body).Ok(d.t)
	}
	for _, region := range []string{"us", "eu", "asia"} {
		for _, asset := range []string{"natural_gas", "oil"} {
			c.Post("/v1/agents/weather/run", fmt.Sprintf(
				`{"asset":%q,"strategy":"energy_demand","timeframe":"1d","parameters":{"region":%q}}`, asset, region))
		}
		for _, asset := range []string{"wheat", "corn"} {
			c.Post("/v1/agents/weather/run", fmt.Sprintf(
				`{"asset":%q,"strategy":"agriculture","timeframe":"1d","parameters":{"region":%q}}`, asset, region))
		}
	}
	c.Post("/v1/agents/seo/run", `{"asset":"standing desk","strategy":"product_description",
		"parameters":{"features":["quiet motor","oak top"]}}`)
	c.Post("/v1/agents/seo/run", `{"asset":"home office lighting","strategy":"blog_post"}`)
	c.Post("/v1/agents", `{"id":"my_agent","name":"Moving averages","category":"trading","strategies":["cross","reversal"],
		"description":"Trades the cross of two moving averages.","defaults":{"stop":{"atr":1},"target":{"r":1.5}},
		"endpoint":{"url":"https://agent.example.com/ask"}}`).
		Want(d.t, http.StatusCreated)
	intake := c.Post("/v1/agents/my_agent/intakes", "").Want(d.t, http.StatusCreated)
	alerts := e2e.Decode[struct{ URL string }](d.t, intake.Body).URL
	for _, alert := range []string{"byu BTCUSD", "flat ETHUSD", "long BINANCE:ETHUSDT sl=1.5% tp=3% price=0"} {
		c.Do(http.MethodPost, strings.TrimPrefix(alerts, c.URL), alert, "Content-Type: text/plain")
	}
	for _, asset := range []string{"BTC", "ETH", "SOL", "EURUSD", "SPY"} {
		c.Post("/v1/agents/my_agent/signals", fmt.Sprintf(
			`{"asset":%q,"strategy":"cross","direction":"long","timeframe":"5m","confidence":0.6}`, asset))
	}
	c.Key("reporting", `["signals:read"]`)
	answering := func(status int, text string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}))
		d.t.Cleanup(s.Close)
		return s.URL
	}
	works := c.Hook(answering(http.StatusOK, "ok")+"/signals", "signal.created", "signal.closed")
	c.Test(works)
	fails := c.Hook(answering(http.StatusInternalServerError, `{"error":"the queue is full"}`)+"/orders", "signal.closed")
	c.Test(fails)
	d.failing = fails.ID
	for _, body := range []string{
		`{"assets":["BTC","ETH","SOL","TSLA","AAPL","NVDA"],"strategy":"momentum"}`,
		`{"assets":["EURUSD","GBPUSD","XAUUSD","oil","natural_gas"],"strategy":"breakout","timeframe":"5m"}`,
	} {
		c.Post("/v1/agents/trading/scan", body).Ok(d.t)
	}
	c.Post("/v1/agents/trading/run", `{"asset":"AAPL","strategy":"sentiment","async":true}`)
	for begin := time.Now(); ; time.Sleep(shotsPoll) {
		closed, failed := c.Signals("agent_id=trading&status=closed&limit=1").Total, c.Total(fails, "status=failed")
		if closed >= shotsClosed && failed >= shotsFailed {
			d.t.Logf("after %s %d signals are closed", time.Since(begin).Round(time.Second), closed)
			return
		}
		if time.Since(begin) > shotsPatience {
			d.t.Fatalf("after %s only %d signals are closed and %d deliveries have failed", shotsPatience, closed, failed)
		}
	}
}

// awaitRows waits until open signals in profit and in loss are in the list.
func (d *shotsDemo) awaitRows(c *camera) {
	act(d.t, c.page, `location.hash = "#/live"`,
		`await until("open signals are in profit and in loss", () =>
			find(".line:not(.closed) .dot.up") && find(".line:not(.closed) .dot.down"))`)
}

// longestOpen returns the id of the open trading signal that may stay open longest.
func (d *shotsDemo) longestOpen() string {
	d.t.Helper()
	open := e2e.Decode[struct {
		Signals []struct {
			ID        string `json:"signal_id"`
			ExpiresAt string `json:"expires_at"`
		}
	}](d.t, d.client.Get("/v1/signals?agent_id=trading&status=open&view=full&limit=100").Ok(d.t).Body).Signals
	if len(open) == 0 {
		d.t.Fatal("no trading signal is open")
	}
	longest := open[0]
	for _, s := range open {
		if s.ExpiresAt > longest.ExpiresAt {
			longest = s
		}
	}
	return longest.ID
}

// scenes returns the pages of one who has signed in. The list is held in the last.
func (d *shotsDemo) scenes() []scene {
	open := func(place, text string, steps ...string) []string {
		return append([]string{fmt.Sprintf(`location.hash = "#/%s"`, place),
			fmt.Sprintf(`await shows(%q, "main")`, text)}, steps...)
	}
	const chart = `await until("the chart is drawn", () => find(".chart canvas"))`
	key := func(name string) string {
		return fmt.Sprintf(`document.body.dispatchEvent(new KeyboardEvent("keydown", {key: %q, bubbles: true}))`, name)
	}
	closed := d.client.Signals("agent_id=trading&status=closed&limit=1").Signals[0].ID
	return []scene{
		{name: "live", steps: open("live", "Closed")},
		{name: "signal-open", steps: open("signals/"+d.longestOpen(), "accounted for", chart)},
		{name: "signal-closed", steps: open("signals/"+closed, "accounted for", chart)},
		{name: "scorecard", steps: open("scorecard", "By strategy")},
		{name: "weather", steps: open("weather", "Off normal")},
		{name: "content", steps: open("content", "quality")},
		{name: "agents", steps: open("agents", "of the service")},
		{name: "agent", steps: open("agents/my_agent", "Submitting")},
		{name: "agent-requests", steps: open("agents/my_agent", "Submitting", `await press("Requests")`,
			`await shows("did you mean", "main")`, `find("details summary").scrollIntoView({block: "center"})`),
			undo: `await press("Requests")`},
		{name: "agent-alerts", steps: open("agents/my_agent", "Submitting", `await press("New address")`,
			`await shows("strategy.market_position", "dialog")`), undo: `await press("I have saved both")`},
		{name: "agent-edit",
			steps: open("agents/my_agent", "Submitting", `await press("Edit…")`, `await shows("Edit", "dialog")`),
			undo:  `await press("Cancel")`},
		{name: "run", steps: open("run", "Ask an agent")},
		{name: "scan", steps: open("run?tab=scan", "Assets", `await press("Scan")`, `await shows("Edge", "main")`)},
		{name: "schedules", steps: open("run?tab=schedules", "Open at most")},
		{name: "jobs", steps: open("run?tab=jobs", "Jobs of")},
		{name: "webhooks", steps: open("webhooks", "failed")},
		{name: "webhook", steps: open("webhooks/"+d.failing, "signal.closed")},
		{name: "delivery", steps: open("webhooks/"+d.failing, "signal.closed",
			`(await until("an attempt is listed", () => find("[aria-label^=\"Attempts of\"]"))).click()`,
			`await shows("Attempt 1", "dialog")`), undo: `await press("Close")`},
		{name: "public", steps: open("public", "What is shown")},
		{name: "account", steps: open("account", "API keys")},
		{name: "help", steps: open("live", "Closed", key("?"), `await shows("Help", "dialog")`), undo: `await press("Close")`},
		{name: "live-filters", steps: open("live?direction=long", "Closed", key(" "), `await shows("Held")`,
			`await until("the pill counts", () => find(".pill button"))`)},
	}
}

// camera takes pictures of a page.
type camera struct {
	t    *testing.T
	page context.Context
	dir  string
	only *regexp.Regexp
}

func newCamera(t *testing.T, dir, url string) *camera {
	t.Helper()
	c := &camera{t: t, dir: dir, only: regexp.MustCompile(os.Getenv(shotsOnly)),
		page: newBrowser(t, url+"/dashboard/", viewports[1].width)}
	evaluate[any](t, c.page, consoleScript)
	return c
}

// take takes pictures of a scene in all sizes and themes.
func (c *camera) take(s scene) {
	c.t.Helper()
	var wanted []func()
	for _, v := range viewports {
		for _, theme := range []string{"dark", "light"} {
			if name := fmt.Sprintf("%s-%d-%s", s.name, v.width, theme); c.only.MatchString(name) {
				wanted = append(wanted, func() { c.shoot(v, theme, name) })
			}
		}
	}
	if len(wanted) == 0 {
		return
	}
	act(c.t, c.page, s.steps...)
	for _, f := range wanted {
		f()
	}
	act(c.t, c.page, s.undo)
}

func (c *camera) shoot(v viewport, theme, name string) {
	c.t.Helper()
	e2e.Must(c.t, chromedp.Do(c.page, chromedp.EmulateViewport(v.width, v.height), emulateTheme(theme)))
	act(c.t, c.page, `await until("all is loaded", () => !find(".wait"))`, `await settled()`)
	picture, err := chromedp.Run(c.page, func(ctx context.Context, target *chromedp.Target) ([]byte, error) {
		r, err := cdp.Call(ctx, target, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{})
		if err != nil {
			return nil, err
		}
		return r.Data, nil
	})
	e2e.Must(c.t, err)
	e2e.Must(c.t, os.WriteFile(filepath.Join(c.dir, name+".png"), picture, 0o644))
}

// emulateTheme sets the theme that the system prefers.
func emulateTheme(theme string) chromedp.Action[chromedp.Void] {
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	})
}
