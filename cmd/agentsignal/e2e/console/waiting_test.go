package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// However the service refuses or delays, a page asks for each thing once at a time and waits as
// long as Retry-After asks; and a form keeps what was typed.
func TestConsoleWaits(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	free := make(chan struct{})
	for name, answer := range map[string]http.HandlerFunc{
		"429":     problemAnswer(http.StatusTooManyRequests, "rate_limited", "Too many requests.", "Retry-After: 15"),
		"503":     problemAnswer(http.StatusServiceUnavailable, "unavailable", "The store is away.", "Retry-After: 15"),
		"nothing": func(_ http.ResponseWriter, r *http.Request) { <-free },
	} {
		act(t, page, `location.hash = "#/live"`)
		paths := []string{"GET /v1/webhooks", "GET /v1/summary", "GET /v1/agents"}
		for _, path := range paths {
			b.answer(path, answer)
		}
		act(t, page, `location.hash = "#/webhooks"`)
		b.forget()
		took := evaluate[float64](t, page, `(async () => {const begun = performance.now();
			for (let n = 0; n < 20; n++) { tick(); await new Promise((resolve) => setTimeout(resolve, 1)) }
			sound(); return performance.now() - begun})()`)
		for _, path := range paths {
			// Twenty would be hammering. One may have been under way before the answers changed.
			if n, may := b.count(path), 2+int(took/15_000); n > may {
				t.Errorf("answered with %s, %s is asked for %d times in %.0f ms", name, path, n, took)
			}
			b.answer(path, nil)
		}
		if name == "nothing" {
			close(free)
		}
		// What waits is what was asked for before: a new browser page begins without it.
		page = openTab(t, page, b.url, 1280)
		evaluate[any](t, page, fmt.Sprintf("signIn(%q, %q)", account.Email, e2e.Password))
	}

	t.Log("a run that is refused for a moment")
	const run = "POST /v1/agents/trading/run"
	refuse(b, run, 2, problemAnswer(http.StatusTooManyRequests, "rate_limited", "Too many requests.", "Retry-After: 1"))
	act(t, page, `location.hash = "#/run"`, `await fill("#r-asset", "BTC")`)
	b.forget()
	act(t, page, `await press("Run")`, `await until("the signal's page opens", () => location.hash.startsWith("#/signals/sig_"))`)
	if keys := b.keysUsed(); len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
		t.Errorf("the attempts have the keys %q", keys)
	}

	t.Log("a run whose answer is lost")
	b.swallow(run, 1)
	act(t, page, `location.hash = "#/run"`, `await fill("#r-asset", "ETH")`)
	b.forget()
	act(t, page, `await press("Run")`, `await until("the signal's page opens", () => location.hash.startsWith("#/signals/sig_"))`)
	if total := trader.Signals("asset=ETH").Total; total != 1 || b.count(run) != 2 {
		t.Errorf("%d requests made %d signals", b.count(run), total)
	}

	t.Log("twenty seconds without network in the middle of a form")
	act(t, page, `location.hash = "#/run"`, `await fill("#r-asset", "AAPL")`)
	b.answer("", noAnswer)
	b.open()[len(b.open())-1].close(1001)
	act(t, page, `dispatchEvent(new Event("offline"))`, `await fill("#r-strategy", "breakout")`)
	b.forget()
	act(t, page, `await press("Run")`, `await shows("press again, and it is done once")`,
		`later(20000)`, `tick()`, `if (find("#r-asset").value !== "AAPL") throw new Error("what was typed is lost")`)
	before := b.keysUsed()
	b.answer("", nil)
	b.swallow(run, 1)
	b.forget()
	act(t, page, `dispatchEvent(new Event("online"))`, `await until("it is live again", () => find(".state.live"))`,
		`if (find("#r-asset").value !== "AAPL" || find("#r-strategy").value !== "breakout")
			throw new Error("what was typed is lost")`,
		`await press("Run")`, `await until("the signal's page opens", () => location.hash.startsWith("#/signals/sig_"))`,
		`sound()`)
	keys := slices.DeleteFunc(append(before, b.keysUsed()...), func(key string) bool { return key == "" })
	if total := trader.Signals("asset=AAPL").Total; total != 1 || len(slices.Compact(keys)) != 1 {
		t.Errorf("%d signals were made with the keys %q", total, keys)
	}
	b.forget()
	act(t, page, `location.hash = "#/run"`, `await fill("#r-asset", "AAPL")`, `await fill("#r-strategy", "breakout")`,
		`await press("Run")`,
		`await until("the signal's page opens", () => location.hash.startsWith("#/signals/sig_"))`)
	if next := b.keysUsed(); len(next) != 1 || slices.Contains(keys, next[0]) {
		t.Errorf("another run has the key %q", next)
	}
}

// refuse answers the first n such requests, and lets the others through.
func refuse(b *consoleRelay, begins string, n int, answer http.HandlerFunc) {
	b.answer(begins, func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		n--
		refused := n >= 0
		b.mu.Unlock()
		if refused {
			answer(w, r)
			return
		}
		b.proxy.ServeHTTP(w, r)
	})
}

// A webhook whose answer is lost is made once; many webhooks and very many deliveries can be
// looked through, and a failed one is sent again.
func TestConsoleManyDeliveries(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	owner, account := s.Account(t)
	hook := e2e.NewFailingEndpoint(t, http.StatusTeapot, "")
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	const create = "POST /v1/webhooks"
	b.swallow(create, 1)
	act(t, page, `location.hash = "#/webhooks"`, `await press("New webhook")`, fmt.Sprintf(`await fill("#w-url", %q)`, hook.URL),
		`find("dialog form").requestSubmit(); find("dialog form").requestSubmit()`,
		`await until("the secret is shown", () => find("dialog .secret code")?.innerText.startsWith("whsec_"))`,
		`await press("I have saved it")`)
	if made := strings.Count(owner.Get("/v1/webhooks").Body, `"webhook_id"`); made != 1 {
		t.Errorf("%d webhooks were made", made)
	}

	total := 10_000
	b.change("GET /v1/webhooks?", func(o map[string]any) {
		first := o["webhooks"].([]any)[0]
		for n := range 49 {
			other := map[string]any{}
			for name, value := range first.(map[string]any) {
				other[name] = value
			}
			other["webhook_id"], other["url"] = fmt.Sprintf("whk_%d", n),
				fmt.Sprintf("https://example.com/%d/%s", n, strings.Repeat("x", 300))
			o["webhooks"] = append(o["webhooks"].([]any), other)
		}
	})
	b.answer("GET /v1/deliveries", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		n := total
		b.mu.Unlock()
		var limit, offset int
		fmt.Sscan(r.URL.Query().Get("limit"), &limit)
		fmt.Sscan(r.URL.Query().Get("offset"), &offset)
		var list []string
		for i := offset; i < min(offset+limit, n); i++ {
			list = append(list, fmt.Sprintf(`{"delivery_id":"dlv_%d","webhook_id":"whk_7","event_id":"evt_%d",
			"event_type":"signal.created",
				"status":"failed","attempt_count":7,"next_attempt_at":null,"completed_at":"2026-11-21T09:30:00.000Z",
				"response_status":500,"error":"delivery %d failed","created_at":"2026-11-21T09:30:00.000Z"}`, i, i, i))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"deliveries":[%s],"total":%d,"has_more":%v}`, strings.Join(list, ","), n, offset+limit < n)
	})
	act(t, page, `tick()`, `await until("all webhooks are listed",
		() => document.querySelectorAll('[aria-label="Webhooks"] tbody tr').length === 50)`,
		`await shows("1 to 25 of 10,000")`, `await press("Oldest")`, `await shows("9,976 to 10,000 of 10,000")`,
		`await shows("delivery 9999 failed")`,
		`await press("Newer")`, `await shows("9,951 to 9,975")`, `await press("Oldest")`,
		`await shows("9,976 to 10,000 of 10,000")`)
	b.mu.Lock()
	total = 9_000 // the others were deleted in the meantime
	b.mu.Unlock()
	act(t, page, `tick()`, `await shows("8,976 to 9,000 of 9,000")`,
		`if (has("Nothing has failed")) throw new Error("the page denies failures")`,
		`await press("Newest")`, `await shows("1 to 25 of 9,000")`, `await shows("delivery 0 failed")`,
		`if (wide().length > 0) throw new Error(wide().join("; "))`)

	t.Log("one of them is sent again")
	b.answer("GET /v1/webhooks/whk_7/deliveries/dlv_3", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"delivery_id":"dlv_3","webhook_id":"whk_7","event_id":"evt_3","event_type":"signal.created",
			"status":"failed",
			"attempt_count":7,"created_at":"2026-11-21T09:30:00.000Z","attempts":[],"payload":{}}`)
	})
	const retry = "POST /v1/webhooks/whk_7/deliveries/dlv_3/retry"
	b.answer(retry, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	})
	b.forget()
	act(t, page, `await press("Attempts of dlv_3, signal.created")`, `await press("Retry")`,
		`await shows("Retry queued")`, `sound()`)
	if keys := b.keysUsed(); len(keys) != 1 || keys[0] == "" {
		t.Errorf("the retry has the keys %q", keys)
	}
}
