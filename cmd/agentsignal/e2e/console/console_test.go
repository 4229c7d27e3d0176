package console

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

//go:embed testdata/console/page.js
var consoleScript string

// openConsole opens the console at the address and signs in.
func openConsole(t *testing.T, url, email string) context.Context {
	t.Helper()
	page := newBrowser(t, url+"/dashboard/", 1280)
	evaluate[any](t, page, consoleScript)
	evaluate[any](t, page, fmt.Sprintf("signIn(%q, %q)", email, e2e.Password))
	return page
}

// act runs steps of page.js.
func act(t *testing.T, page context.Context, steps ...string) {
	t.Helper()
	evaluate[any](t, page, "(async () => {"+strings.Join(steps, "; ")+"; return true})()")
}

// A user signs in, runs an agent, sees the signal, filters, and watches it close.
func TestConsole(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, account := e2e.StartTrading(t, redis)
	prices := e2e.NewMarket(t, redis.Client())
	e2e.Eventually(t, "the service has seen its Redis", func() bool { list, _ := s.Warnings(t); return len(list) > 0 })
	page := newBrowser(t, s.URL+"/dashboard/", 1280)
	evaluate[any](t, page, consoleScript)
	// Each page has the warnings of /readyz, also before one signs in.
	const risk = `await shows("Redis has no append-only file")`
	act(t, page, risk, fmt.Sprintf("await signIn(%q, %q)", account.Email, e2e.Password))
	act(t, page, `await shows("No signals yet")`,
		`location.hash = "#/run"`, `await fill("#r-asset", "ACME")`, `await fill("#r-strategy", "momentum")`,
		`await press("Run")`, `await until("the signal's page opens", () => location.hash.startsWith("#/signals/sig_"))`,
		`await shows("Chance over time")`, `await shows("The odds, accounted for")`,
		`await until("the chart is drawn", () => find(".chart canvas"))`)
	made := trader.Signals("").Signals[0]
	for _, place := range []string{"signals/" + made.ID, "run", "scorecard", "webhooks", "live"} {
		act(t, page, fmt.Sprintf(`location.hash = "#/%s"`, place),
			`await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`, risk)
	}
	tab := openTab(t, page, s.URL, 1280)
	for _, path := range []string{"/docs", "/docs/start.html"} { // all others have the same script
		e2e.Must(t, chromedp.Do(tab, chromedp.Navigate(s.URL+path)))
		evaluate[any](t, tab, consoleScript)
		act(t, tab, risk)
	}
	act(t, page, `location.hash = "#/live"`,
		fmt.Sprintf(`await until("its row is there", () => find("[data-row=%s]"))`, made.ID))

	signal := trader.Run("ACME", "momentum") // of another client
	act(t, page, fmt.Sprintf(`await until("the new row is there", () => find("[data-row=%s]"))`, signal.ID))
	other := map[string]string{"long": "short", "short": "long"}[signal.Direction]
	act(t, page, fmt.Sprintf(`await fill("#f-direction", %q)`, other), `await shows("No signal fits these filters")`,
		fmt.Sprintf(`if (!location.hash.includes("direction=%s")) throw new Error(location.hash)`, other),
		`await press("Clear")`, fmt.Sprintf(`await until("it is back", () => find("[data-row=%s]"))`, signal.ID))

	price := *signal.Target + (*signal.Target-*signal.Entry)/100
	prices.Tick("ACME", strconv.FormatFloat(price, 'f', -1, 64))
	act(t, page, fmt.Sprintf(`await until("it closes", () => find("[data-row=%s]").closest(".closed"))`, signal.ID),
		`await shows("+1.50 R")`)
}

// While the list is held, new rows wait and are counted.
func TestConsoleHolds(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	page := openConsole(t, s.URL, account.Email)
	act(t, page, `await shows("No signals yet")`,
		`document.body.dispatchEvent(new KeyboardEvent("keydown", {key: " ", bubbles: true}))`, `await shows("Held")`)
	signal := trader.AwaitRun("BTC", "momentum")
	act(t, page, `await until("the pill counts it", () => has("1 new", ".pill"))`,
		fmt.Sprintf(`if (find("[data-row=%s]")) throw new Error("a row came while the list was held")`, signal.ID),
		`find(".pill button").click()`,
		fmt.Sprintf(`await until("the row is there", () => find("[data-row=%s]"))`, signal.ID))
}

// What was asked for before the list was held is shown when it comes, without what is newer.
func TestConsoleHoldsLateAnswers(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	early := trader.AwaitRun("BTC", "momentum")
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	row := func(id string) string { return fmt.Sprintf(`find("[data-row=%s]")`, id) }
	act(t, page, fmt.Sprintf(`await until("the row is there", () => %s)`, row(early.ID)))
	free := make(chan struct{})
	const open = "GET /v1/signals?agent_id=trading&status=open"
	b.answer(open, func(w http.ResponseWriter, r *http.Request) {
		<-free
		late := httptest.NewRecorder()
		b.proxy.ServeHTTP(late, r)
		// The row of one more signal shows that the answer was handled.
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.Replace(late.Body.String(), `"signals":[`, `"signals":[`+
			strings.Replace(trader.Get("/v1/signals/"+early.ID).Body, early.ID, "sig_older", 1)+`,`, 1))
	})
	act(t, page, `location.hash = "#/live?agent=trading"`)
	e2e.Eventually(t, "the list is asked for", func() bool { return b.count(open) > 0 })
	act(t, page, `strike(" ", document.body)`, `await shows("Held")`)
	late := trader.AwaitRun("ETH", "momentum")
	act(t, page, `await until("the pill counts it", () => has("1 new", ".pill"))`)
	close(free)
	act(t, page, fmt.Sprintf(`await until("the answer is shown", () => %s)`, row("sig_older")),
		fmt.Sprintf(`await until("what was asked for is still there", () => %s)`, row(early.ID)), // drawn a frame later
		fmt.Sprintf(`if (%s || !has("1 new", ".pill")) throw new Error("a row came while the list was held")`, row(late.ID)),
		`find(".pill button").click()`, fmt.Sprintf(`await until("the row is there", () => %s)`, row(late.ID)), `sound()`)
}

// cutter is a connection to a service that a test can cut.
type cutter struct {
	url, target string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	e2e.Must(t, err)
	t.Cleanup(func() { ln.Close() })
	c := &cutter{url: "http://" + ln.Addr().String(), target: strings.TrimPrefix(target, "http://"),
		conns: make(map[net.Conn]bool)}
	t.Cleanup(func() { c.set(true) })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go c.serve(conn)
		}
	}()
	return c
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	c.mu.Lock()
	if c.cut {
		c.mu.Unlock()
		return
	}
	c.conns[client], c.conns[server] = true, true
	c.mu.Unlock()
	go func() {
		_, _ = io.Copy(server, client) // until either end closes
		server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// set cuts the connections and refuses new ones, or lets them through again.
func (c *cutter) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for conn := range c.conns {
		if cut {
			conn.Close()
			delete(c.conns, conn)
		}
	}
}

// After a cut the page comes back by itself, with what happened meanwhile.
func TestConsoleResumes(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	line := newCutter(t, s.URL)
	page := openConsole(t, line.url, account.Email)
	first := trader.AwaitRun("BTC", "momentum")
	act(t, page, fmt.Sprintf(`await until("the first row is there", () => find("[data-row=%s]"))`, first.ID))
	line.set(true)
	act(t, page, `await shows("Offline")`)
	second := trader.AwaitRun("ETH", "momentum")
	line.set(false)
	act(t, page, `await shows("none missing")`,
		fmt.Sprintf(`await until("what was missed is there", () => find("[data-row=%s]"))`, second.ID),
		`if (has("Gap ")) throw new Error("a gap is reported")`)
}

// An API key is made, shown once and revoked; the page survives the end of its own session.
func TestConsoleAccount(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	_, account := s.Account(t)
	page := openConsole(t, s.URL, account.Email)
	act(t, page, `location.hash = "#/account"`, `await press("New key")`, `await fill("#k-name", "robot")`,
		`find("dialog form").requestSubmit()`, `await until("the key is shown", () => find("dialog .secret code"))`)
	key := e2e.NewClient(t, s.URL, evaluate[string](t, page, `find("dialog .secret code").innerText`))
	key.Get("/v1/account").Want(t, http.StatusOK)
	act(t, page, `await press("I have saved it")`, `await shows("robot", "table")`,
		`await until("the secret is gone", () => !document.body.innerText.match(/ask_[0-9A-Za-z]{46}/))`,
		`await press("Revoke robot")`,
		`await shows("Programs with this key")`, `await press("Revoke")`,
		`await until("it is gone", () => !has("robot", "table"))`)
	key.Get("/v1/account").Want(t, http.StatusUnauthorized)

	session := s.Client(t).Login(account.Email, e2e.Password)
	e2e.NewClient(t, s.URL, session.Access).Post("/v1/auth/logout", `{"all":true}`).Want(t, http.StatusNoContent)
	act(t, page, `location.hash = "#/webhooks"`, `await shows("Your session has ended")`,
		fmt.Sprintf(`await signIn(%q, %q)`, account.Email, e2e.Password), `await shows("No webhook yet")`)
}

// A failed delivery is seen with its answer, and sent again.
func TestConsoleWebhooks(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	status := http.StatusTeapot
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<b>short and stout</b>")
	}))
	t.Cleanup(hook.Close)
	config := e2e.TestConfig(t, redistest.New(t).URL())
	config.Webhooks.AllowedNetworks, config.Webhooks.AllowHTTP = []string{"127.0.0.0/8"}, true
	s := e2e.Start(t, config)
	_, account := s.Account(t)
	page := openConsole(t, s.URL, account.Email)
	act(t, page, `location.hash = "#/webhooks"`, `await press("New webhook")`,
		fmt.Sprintf(`await fill("#w-url", %q)`, hook.URL+"/hook"), `await fill("#w-most", "90")`,
		`find("dialog form").requestSubmit()`,
		`await until("the secret is shown", () => find("dialog .secret code")?.innerText.startsWith("whsec_"))`,
		`await press("I have saved it")`,
		fmt.Sprintf(`await press(%q)`, hook.URL+"/hook"), `await shows("90 requests a minute")`, `await press("Limit…")`,
		`await fill("#w-most", "30")`, `find("dialog form").requestSubmit()`, `await shows("30 requests a minute")`,
		`await press("Send a test event")`,
		`await shows("status 418", "table")`, `find("tbody button").click()`,
		`await shows("<b>short and stout</b>", "dialog")`, `await press("Cancel it")`, `await shows("failed", "dialog")`)
	mu.Lock()
	status = http.StatusOK
	mu.Unlock()
	act(t, page, `await press("Retry")`, `await shows("succeeded", "dialog")`, `await press("Close")`,
		`await press("Recover…")`, `await press("Count")`, `await shows("0 deliveries would be sent again")`)
}

// A receiver that asks for a wait is seen to have asked, in the list and on the webhook's page.
func TestConsoleShowsHeldWebhooks(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	hook := trader.Hook("https://hooks.example.com/signals")
	b := newConsoleRelay(t, s.URL)
	held := func(o map[string]any) { o["held_until"] = "2099-01-01T00:00:00.000Z" }
	b.change("GET /v1/webhooks/"+hook.ID, held)
	b.change("GET /v1/webhooks?", func(o map[string]any) { held(o["webhooks"].([]any)[0].(map[string]any)) })
	page := openConsole(t, b.url, account.Email)
	for _, place := range []string{"webhooks", "webhooks/" + hook.ID} {
		act(t, page, fmt.Sprintf(`location.hash = "#/%s"`, place), `await shows("held")`,
			`await shows("Nothing is sent until 01 Jan")`, `await shows("as its receiver asked")`, `sound()`)
	}
}

// A name that is near one of an asset, or another name of it, leads to the asset.
func TestConsoleSuggestsAssets(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	made := trader.AwaitRun("BTC", "momentum")
	b := newConsoleRelay(t, s.URL)
	b.answer("GET /v1/signals?asset=BTCC", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"title":"x","status":400,"detail":"x","code":"invalid_request",`+
			`"errors":[{"parameter":"asset","code":"invalid_value","detail":"did you mean BTC? GET /v1/assets lists all"}]}`)
	})
	page := openConsole(t, b.url, account.Email)
	row := fmt.Sprintf(`find("[data-row=%s]")`, made.ID)
	act(t, page, fmt.Sprintf(`await until("the row is there", () => %s)`, row))
	for _, typed := range []string{"BTCC", "BTCUSDT"} {
		act(t, page, fmt.Sprintf(`await fill("#f-asset", %q)`, typed), `await shows("Did you mean BTC?")`,
			`await press("Did you mean BTC?")`, fmt.Sprintf(`await until("the row is back", () => %s)`, row), `sound()`)
	}
}

// Names and texts of others are text, whatever they hold; and neither refused storage nor a clock
// that is wrong stops the page.
func TestConsoleIsRobust(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	hostile := `<img src=x onerror="window.hacked=1">`
	trader.Post("/v1/agents/seo/run", e2e.RunBody(hostile, "blog_post")).Ok(t)
	b := newConsoleRelay(t, s.URL)
	b.prelude = `Storage.prototype.setItem = Storage.prototype.getItem = () => { throw new Error("refused") }; later(3600000);`
	page := newBrowser(t, b.url+"/dashboard/", 320) // as 1280 px at 400 %
	evaluate[any](t, page, consoleScript)
	evaluate[any](t, page, fmt.Sprintf("signIn(%q, %q)", account.Email, e2e.Password))
	act(t, page, fmt.Sprintf("await shows(%q, '[data-row]')", hostile), `await shows("clock is wrong")`,
		`location.hash = "#/content"`, fmt.Sprintf("await shows(%q)", hostile), `await shows("quality")`,
		`if (window.hacked || find("main img")) throw new Error("a name became markup")`,
		`if (document.documentElement.scrollWidth > innerWidth) throw new Error("the page scrolls sideways")`,
		`for (const message of ["{", "[]", "null", "{}", '{"type":"signal.new","id":"9-9","data":null}'])
			try { document.body.innerHTML = message; throw 1 } catch (e) { if (e === 1) throw new Error("markup from text") }`)
}

// axeFile is installed by make console.
const axeFile = "../../../../http/console/node_modules/axe-core/axe.min.js"

// No page violates WCAG 2.2 AA as far as axe-core can tell, in both themes.
func TestConsoleIsAccessible(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile(axeFile)
	if err != nil {
		t.Skipf("make console installs axe-core: %v", err)
	}
	redis := redistest.New(t)
	s, trader, account := e2e.StartTrading(t, redis)
	prices := e2e.NewMarket(t, redis.Client())
	first := trader.Run("ACME", "momentum")
	prices.Tick("ACME", strconv.FormatFloat(*first.Target+(*first.Target-*first.Entry)/100, 'f', -1, 64))
	e2e.Eventually(t, "it is closed", func() bool { return trader.State(first.ID).Status == "closed" })
	open := trader.Run("ACME", "momentum")
	trader.Post("/v1/agents/seo/run", e2e.RunBody("standing desk", "blog_post")).Ok(t)
	hook := trader.Hook("https://hooks.example.com/signals")
	trader.With(trader.Login(account.Email, e2e.Password).Access).Post("/v1/agents",
		`{"id":"my_agent","name":"Mine","category":"trading","strategies":["cross"]}`).Want(t, http.StatusCreated)
	for _, theme := range []string{"dark", "light"} {
		page := newBrowser(t, s.URL+"/dashboard/", 1280)
		evaluate[any](t, page, string(axe)+";"+consoleScript)
		e2e.Must(t, chromedp.Do(page, emulateTheme(theme)))
		check := func(what string) {
			t.Helper()
			for _, v := range evaluate[[]string](t, page, "violations()") {
				t.Errorf("%s, %s: %s", what, theme, v)
			}
		}
		check("sign in")
		evaluate[any](t, page, fmt.Sprintf("signIn(%q, %q)", account.Email, e2e.Password))
		for place, text := range map[string]string{
			"live": "Closed", "signals/" + first.ID: "accounted for", "signals/" + open.ID: "Time left",
			"scorecard": "By strategy", "weather": "Weather", "content": "quality", "run": "Ask an agent",
			"run?tab=scan": "Assets", "run?tab=schedules": "Schedules", "run?tab=jobs": "Jobs",
			"webhooks": "Webhooks", "webhooks/" + hook.ID: "Deliveries", "account": "API keys", "public": "What is shown",
			"readers": "No readers",
			"agents":  "of the service", "agents/my_agent": "Submitting", "nosuch": "no such page",
		} {
			act(t, page, fmt.Sprintf(`location.hash = "#/%s"`, place), fmt.Sprintf("await shows(%q, 'main')", text))
			act(t, page, `await until("it is loaded", () => !find(".wait"))`)
			check(place)
		}
		for place, dialog := range map[string]string{
			"account": "New key", "readers": "New readers", "webhooks": "New webhook", "run?tab=schedules": "New schedule",
			"live":                "Help and keys",
			"webhooks/" + hook.ID: "Recover…", "agents": "New agent", "agents/my_agent": "Edit…",
		} {
			act(t, page, fmt.Sprintf(`location.hash = "#/%s"`, place), `await until("it is loaded", () => !find(".wait"))`,
				fmt.Sprintf(`await press(%q)`, dialog), `await until("the dialog is open", () => find("dialog[open]"))`)
			check(dialog)
			act(t, page, `find("dialog").close()`, `await until("the dialog is closed", () => !find("dialog"))`)
		}
	}
}
