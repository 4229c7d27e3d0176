package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// openTab opens another tab in the browser of a page.
func openTab(t *testing.T, page context.Context, url string, width int64, opts ...chromedp.ContextOption) context.Context {
	t.Helper()
	tab, end := chromedp.NewContext(page, opts...)
	t.Cleanup(end)
	if err := chromedp.Do(tab, chromedp.EmulateViewport(width, 900), chromedp.Navigate(url+"/dashboard/")); err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	evaluate[any](t, tab, consoleScript)
	return tab
}

// Whatever ends a session, the page asks to sign in where it is. It asks for nothing else
// meanwhile, and what was typed is there afterwards, for the same account only.
func TestConsoleSessionEnds(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	first := trader.AwaitRun("BTC", "momentum")
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	act(t, page, fmt.Sprintf(`await until("a row is there", () => find("[data-row=%s]"))`, first.ID))

	t.Log("signed out of all sessions elsewhere, with a form half filled in")
	act(t, page, `location.hash = "#/run"`, `await fill("#r-asset", "ETH")`)
	elsewhere := func() *e2e.Client {
		return e2e.NewClient(t, s.URL, s.Client(t).Login(account.Email, e2e.Password).Access)
	}
	elsewhere().Post("/v1/auth/logout", `{"all":true}`).Want(t, http.StatusNoContent)
	act(t, page, `await shows("Your session has ended")`,
		`if (location.hash !== "#/run") throw new Error("the page went to " + location.hash)`,
		`if (has("Ask an agent")) throw new Error("what an ended session has loaded is shown")`)
	b.forget()
	act(t, page, `tick(); tick()`, `await new Promise((resolve) => setTimeout(resolve, 300))`, `await fetch("/healthz")`)
	asked := slices.DeleteFunc(b.forget(), func(name string) bool { return name == "GET /readyz" }) // needs no session
	if len(asked) != 1 {
		t.Errorf("without a session the page asks for %v", asked)
	}
	act(t, page, fmt.Sprintf("await signIn(%q, %q)", account.Email, e2e.Password),
		`await until("what was typed is kept", () => find("#r-asset")?.value === "ETH")`, `sound()`)

	t.Log("the password is changed elsewhere, with a dialog open")
	act(t, page, `location.hash = "#/webhooks"`, `await press("New webhook")`, `await fill("#w-url", "https://example.com/hook")`)
	const next = "a new battery staple"
	elsewhere().Post("/v1/auth/password", fmt.Sprintf(`{"current_password":%q,"new_password":%q}`, e2e.Password, next)).
		Want(t, http.StatusNoContent)
	act(t, page, `await shows("Your session has ended")`,
		`await until("one can type", () => (find("#email").focus(), document.activeElement === find("#email")))`,
		fmt.Sprintf("await signIn(%q, %q)", account.Email, next),
		`await until("the dialog is there again", () => find("dialog[open] #w-url")?.getClientRects().length > 0)`,
		`if (find("#w-url").value !== "https://example.com/hook") throw new Error("the address is lost")`,
		`find("#w-url").focus()`,
		`if (document.activeElement !== find("#w-url")) throw new Error("the dialog cannot be used")`,
		`find("dialog form button:not(.primary)").click()`)

	t.Log("the account is deleted, and another one signs in")
	act(t, page, `location.hash = "#/run"`, `await fill("#r-asset", "SECRET")`)
	e2e.Must(t, s.Credentials().Accounts.DeleteAccount(t.Context(), account.ID))
	act(t, page, `await shows("The account was deleted")`,
		`if (document.documentElement.textContent.includes("SECRET") ||
		find("#r-asset")) throw new Error("its forms are still there")`)
	_, other := s.Account(t)
	act(t, page, fmt.Sprintf("await signIn(%q, %q)", other.Email, e2e.Password),
		`await until("the form is empty", () => find("#r-asset")?.value === "")`,
		`location.hash = "#/live"`, `await shows("No signals yet")`,
		`if (find("[data-row]")) throw new Error("a signal of another account is listed")`, `sound()`)
}

// signals of one account are never shown to the next, even where the list was held.
func TestConsoleChangesAccounts(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	first := trader.AwaitRun("BTC", "momentum")
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	_, other := s.Account(t)
	act(t, page, fmt.Sprintf(`await until("a row is there", () => find("[data-row=%s]"))`, first.ID),
		`strike(" ", document.body)`, `await shows("Held")`, `await press("Sign out")`,
		`await until("the door is shown", () => find("#email"))`,
		`if (find("[data-row]")) throw new Error("the page of a session that ended is still there")`)
	b.answer("GET /v1/signals", unavailable)
	act(t, page, fmt.Sprintf("await signIn(%q, %q)", other.Email, e2e.Password),
		`await until("the list is asked for", () => find(".wait, .fault"))`,
		`if (find("[data-row]")) throw new Error("a signal of another account is listed")`)
	b.answer("GET /v1/signals", nil)
	act(t, page, `await shows("No signals yet")`, `if (has("Held")) throw new Error("another account finds the list held")`,
		`sound()`)
}

// accessTTL is long enough for a busy machine to renew in time, and short enough to wait for its end.
const accessTTL = 20 * time.Second

// expire lets the page believe that its token has to be renewed.
const expire = `later(15000); tick()`

// A token that expires is replaced in time and on the same connection of the stream. While
// the service renews none, the page waits and does not hammer; a refresh token that is no
// longer good ends with the sign-in page. Two tabs with copies of one refresh token renew in
// turns, and sign out together.
func TestConsoleRenews(t *testing.T) {
	t.Parallel()
	config := e2e.TestConfig(t, redistest.New(t).URL())
	config.Auth.AccessTTL = configs.Duration(accessTTL)
	s := e2e.Start(t, config)
	author, account := s.Account(t)
	b := newConsoleRelay(t, s.URL)
	begun := time.Now()
	page := openConsole(t, b.url, account.Email)
	live := b.newest(1)
	author.Post("/v1/agents/seo/run", e2e.RunBody("standing desk", "blog_post")).Ok(t)
	act(t, page, `await shows("standing desk")`)
	const refresh = "POST /v1/auth/refresh"
	for n := range 2 {
		act(t, page, expire)
		e2e.Eventually(t, "the stream is authenticated again", func() bool { return len(live.saidWith("auth")) >= n+1 })
	}
	took := time.Since(begun)
	if n, renewed := len(b.open()), b.count(refresh); n != 1 || renewed > 3+int(took/(5*time.Second)) {
		t.Errorf("%s took %d connections and %d renewals", took, n, renewed)
	}

	t.Log("no answer for a while")
	b.answer(refresh, noAnswer)
	b.forget()
	act(t, page, expire, `await until("the stream is lost", () => !find(".state.live"))`,
		`await shows("The service does not answer")`)
	tried := b.count(refresh)
	b.forget()
	act(t, page, `tick(); tick(); tick(); tick(); tick(); tick(); tick(); tick(); tick(); tick()`,
		`await new Promise((resolve) => setTimeout(resolve, 500))`)
	if more := b.count(refresh); tried == 0 || more > 2 {
		t.Errorf("%d renewals were tried until the stream was lost, then %d in half a second", tried, more)
	}
	b.answer(refresh, problemAnswer(http.StatusServiceUnavailable, "unavailable", "The store is away.", "Retry-After: 1"))
	b.forget()
	e2e.Eventually(t, "a 503 is tried again", func() bool { return b.count(refresh) > 0 })
	b.answer(refresh, nil)
	act(t, page, `await shows("none missing")`,
		`await until("the service is reached", () => !has("The service does not answer"))`)

	t.Log("two tabs")
	opened := chromedp.WaitNewTarget(page, func(i *target.Info) bool { return i.Type == "page" })
	// chromedp has a data race where it attaches to a page whose document changes, so this one is empty.
	_, err := chromedp.Run(page, chromedp.Evaluate[any](`window.open("about:blank"), true`,
		chromedp.EvalAsValue, func(p *runtime.EvaluateParams) { yes := true; p.UserGesture = &yes }))
	e2e.Must(t, err)
	copied := openTab(t, page, b.url, 1280, chromedp.WithTargetID(<-opened))
	act(t, copied, `await until("the copy is live", () => find(".state.live"))`)
	for _, tab := range []context.Context{page, copied, page, copied} {
		b.forget()
		act(t, tab, expire)
		e2e.Eventually(t, "it renews", func() bool { return b.count(refresh) > 0 })
	}
	act(t, page, expire)
	act(t, copied, expire)
	for _, tab := range []context.Context{page, copied} {
		// A slow page may find that its stream was silent, and connects again.
		act(t, tab, `await until("the tab is live or lost its session", () => find(".state.live, #email"))`,
			`if (find("#email")) throw new Error("a tab lost its session")`, `sound()`)
	}
	act(t, copied, `await press("Sign out")`, `await until("it is out", () => find("#email"))`)
	act(t, page, `await shows("You signed out in another tab")`)

	t.Log("a refresh token that is no longer good")
	act(t, page, fmt.Sprintf("await signIn(%q, %q)", account.Email, e2e.Password))
	used := evaluate[string](t, page, `sessionStorage.getItem("agentsignal.refresh")`)
	s.Client(t).Post("/v1/auth/refresh", fmt.Sprintf(`{"refresh_token":%q}`, used)) // either one is the second use
	act(t, page, `await shows("Your session has ended")`, `sound()`)
}
