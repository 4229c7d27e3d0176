package console

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// Names that others chose: long, with characters that turn the direction of text, and markup.
var hostileNames = []string{
	strings.Repeat("ANTIDISESTABLISHMENT", 20),
	"BTC\u202e\u2066txt.exe \U0001F680\U0001F469\u200d\U0001F680",
	`<img src=x onerror=hacked=1><script>hacked=1</script>`,
}

// At 320 px, which is 1280 px at a zoom of 400 %, no page scrolls sideways, whatever a name or a
// text holds; no target is smaller than 24 px; and what has the focus is not below the header.
func TestConsoleIsNarrow(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, account := e2e.StartTrading(t, redis)
	prices := e2e.NewMarket(t, redis.Client())
	first := trader.Run("ACME", "momentum")
	prices.Tick("ACME", strconv.FormatFloat(*first.Target+(*first.Target-*first.Entry)/100, 'f', -1, 64))
	e2e.Eventually(t, "it is closed", func() bool { return trader.State(first.ID).Status == "closed" })
	open := trader.Run("ACME", "momentum")
	trader.Post("/v1/agents/seo/run", e2e.RunBody("standing desk", "blog_post")).Ok(t)
	b := newConsoleRelay(t, s.URL)
	rename := func(o map[string]any) {
		o["asset"] = hostileNames[0]
		o["metadata"].(map[string]any)["reasoning"] = hostileNames[1] + hostileNames[0] + hostileNames[2]
		o["metadata"].(map[string]any)["source"] = hostileNames[0]
	}
	b.change("GET /v1/signals/"+open.ID, func(o map[string]any) {
		if o["asset"] != nil { // not its history nor its proof
			rename(o)
		}
	})
	b.change("GET /v1/scorecard", func(o map[string]any) {
		for _, g := range o["groups"].([]any) {
			g.(map[string]any)["asset"] = hostileNames[0]
		}
	})
	b.change("GET /v1/assets", func(o map[string]any) {
		for i, a := range o["assets"].([]any) {
			a.(map[string]any)["asset"] = hostileNames[i%len(hostileNames)]
		}
	})
	b.change("GET /v1/webhooks", func(o map[string]any) {
		o["webhooks"] = []any{map[string]any{"webhook_id": "whk_1",
			"url": "https://example.com/" + hostileNames[0], "events": []any{hostileNames[0]},
			"status": "disabled", "disabled_reason": hostileNames[0],
			"description": hostileNames[1] + hostileNames[0], "failing_since": nil,
			"api_version": "2026-11-01", "created_at": "2026-11-21T09:30:00.000Z"}}
	})
	b.change("GET /v1/jobs", func(o map[string]any) {
		o["jobs"] = []any{map[string]any{"job_id": "job_1", "agent_id": "trading",
			"asset": hostileNames[0], "strategy": hostileNames[0],
			"status": "error", "created_at": "2026-11-21T09:30:00.000Z", "started_at": nil, "completed_at": nil,
			"error": map[string]any{"error_code": "X", "message": hostileNames[0]}}}
	})
	b.change("GET /v1/schedules", func(o map[string]any) {
		o["schedules"] = []any{map[string]any{"schedule_id": "sch_1", "agent_id": "trading",
			"assets": []any{hostileNames[0]}, "strategy": "momentum",
			"timeframe": "1h", "risk_level": "low", "every": "bar", "max_open": 1, "next_run_at": nil, "status": "enabled",
			"failures":   3,
			"last_error": map[string]any{"message": hostileNames[0]}}}
	})
	person := trader.With(trader.Login(account.Email, e2e.Password).Access)
	person.Post("/v1/agents", fmt.Sprintf(`{"id":"my_agent","name":%q,"category":"trading","description":%q,"strategies":[%q]}`,
		strings.Repeat("W", 80), strings.Repeat("W", 500), "a"+strings.Repeat("_long", 6))).Want(t, http.StatusCreated)
	page := newBrowser(t, b.url+"/dashboard/", 320)
	evaluate[any](t, page, consoleScript)
	act(t, page, `if (wide().length + small().length > 0) throw new Error("sign in: " + [...wide(), ...small()].join("; "))`)
	evaluate[any](t, page, fmt.Sprintf("signIn(%q, %q)", account.Email, e2e.Password))
	live := b.newest(1)
	for n := range 40 {
		live.says(fmt.Sprintf(`{"type":"signal.new","id":"90000000000%02d-0","data":{"signal_id":"sig_%d",
			"agent_id":"trading","asset":%s,
			"strategy":%s,"direction":"long","confidence":0.5,"entry_price":100,"stop_loss":90,"take_profit":120,"metadata":{},
			"created_at":"2026-11-21T09:30:%02d.000Z"},"timestamp":"2026-11-21T09:30:00.000Z"}`,
			n, n, e2e.JsonOf(t, hostileNames[n%3]), e2e.JsonOf(t, hostileNames[0]), n))
	}
	act(t, page, `await until("the rows are there", () => Number(find("[role=table]").getAttribute("aria-rowcount")) >= 43)`)

	pages := []struct{ place, text string }{{"live",
		"Open"}, {"signals/" + open.ID, "accounted for"}, {"signals/" + first.ID, "accounted for"},
		{"agents", "of the service"}, {"agents/my_agent", "Submitting"},
		{"scorecard", "By strategy"}, {"weather", "Weather"}, {"content", "quality"}, {"run", "Ask an agent"}, {"run?tab=scan",
			"Assets"},
		{"run?tab=schedules", "each bar"}, {"run?tab=jobs", "error"}, {"webhooks", "disabled"}, {"account",
			"API keys"}, {"public", "What is shown"}, {"nosuch", "no such page"}}
	for _, width := range []int64{320, 1280} {
		e2e.Must(t, chromedp.Do(page, chromedp.EmulateViewport(width, 900)))
		for _, p := range pages {
			act(t, page, fmt.Sprintf(`location.hash = "#/%s"`, p.place), fmt.Sprintf(`await shows(%q, "main")`, p.text),
				`await until("it is loaded", () => !find(".wait"))`)
			for _, wrong := range evaluate[[]string](t, page, `[...wide().map((e) => "scrolls sideways: " + e),
				...small().map((e) => "small: " + e), ...covered().map((e) => "below the header: " + e)]`) {
				t.Errorf("%s at %d px: %s", p.place, width, wrong)
			}
		}
		act(t, page, `location.hash = "#/live"`, `await shows("Open", "main")`)
		rows(t, page)
	}
	act(t, page, `if (window.hacked || find("main img, main script")) throw new Error("a name became markup")`, `sound()`)
}

// rows moves through the list by its keys, down and up, and fails where the focus is out of sight.
func rows(t *testing.T, page context.Context) {
	t.Helper()
	act(t, page, `document.activeElement.blur(); scrollTo(0, 0)`,
		`const seen = () => { const box = document.activeElement.closest("[role=row]").getBoundingClientRect();
			if (unseen(box) > 1)
				throw new Error("of the row at " + box.top + " to " + box.bottom + " not all is seen: " + unseen(box)); }`,
		`const walk = async (key) => { for (let n = 0; n < 30; n++) {
			strike(key); await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame); seen(); } }`,
		`await walk("j")`, `await walk("k")`)
}

// The keys of the console work, and stay off where they are switched off.
func TestConsoleKeys(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	made := trader.AwaitRun("BTC", "momentum")
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	goes := func(keys, place string) string {
		return fmt.Sprintf(`[...%q].forEach((key) => strike(key, document.body));
			if (location.hash !== "#/%s") throw new Error("%s leads to " + location.hash)`, keys, place, keys)
	}
	act(t, page, fmt.Sprintf(`await until("the row is there", () => find("[data-row=%s]"))`, made.ID),
		`strike("j")`, fmt.Sprintf(`if (document.activeElement !== find("[data-row=%s]"))
			throw new Error("j does not move")`, made.ID),
		`document.activeElement.click()`, fmt.Sprintf(`await until("it opens", () => location.hash === "#/signals/%s")`, made.ID),
		goes("gl", "live"), goes("gs", "scorecard"), goes("gw", "weather"), goes("gc", "content"), goes("gr", "run"), goes("gh",
			"webhooks"),
		goes("gp", "public"), goes("ga", "account"), goes("gl", "live"),
		`await until("the filters are there", () => find("#f-asset"))`,
		`strike("/")`, `if (document.activeElement !== find("#f-asset")) throw new Error("/ does not lead to the filter")`,
		`strike("j"); strike("g"); strike("s")`, `if (location.hash !== "#/live") throw new Error("keys work while one types")`,
		`strike("Escape")`, `if (document.activeElement === find("#f-asset"))
			throw new Error("Escape does not leave the filter")`,
		`strike(" ")`, `await shows("Held")`, `strike(" ")`, `await until("it is let go", () => !has("Held"))`,
		`strike("?")`, `await until("the help is shown", () => find("dialog[open]"))`,
		`find('dialog input[type="checkbox"]').click()`, `await press("Close")`,
		`await until("it is closed", () => !find("dialog"))`,
		goes("gs", "live"))
	e2e.Must(t, chromedp.Do(page, chromedp.Navigate(b.url+"/dashboard/?again#/live")))
	evaluate[any](t, page, consoleScript)
	act(t, page, `await until("the session is kept", () => find(".state.live"))`, goes("gs", "live"),
		`strike("?")`, `if (find("dialog")) throw new Error("? works though keys are off")`,
		`await press("Help and keys")`, `find('dialog input[type="checkbox"]').click()`, `await press("Close")`,
		`await until("it is closed", () => !find("dialog"))`, goes("gs", "scorecard"))

	t.Log("the skip link")
	e2e.Must(t, chromedp.Do(page, chromedp.KeyEvent("\t")))
	act(t, page, `find(".skip").focus()`, `const box = find(".skip").getBoundingClientRect()`,
		`if (box.top < 0 || box.bottom > innerHeight) throw new Error("it is out of sight")`, `find(".skip").click()`,
		`if (document.activeElement !== find("#main")) throw new Error("it does not lead to the content")`, `sound()`)
}
