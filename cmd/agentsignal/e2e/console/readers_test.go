package console

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// Readers are made, one and many at once, shown once, listed in pages, and revoked, one and by their names.
func TestConsoleReaders(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile(axeFile)
	if err != nil {
		t.Skipf("make console installs axe-core: %v", err)
	}
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	person := trader.With(trader.Login(account.Email, e2e.Password).Access)
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	evaluate[any](t, page, string(axe))
	check := func(what string) {
		t.Helper()
		for _, width := range []int64{1280, 390} {
			e2e.Must(t, chromedp.Do(page, chromedp.EmulateViewport(width, 900)))
			for _, wrong := range evaluate[[]string](t, page, `(async () => [...await violations(),
				...wide().map((e) => "scrolls sideways: " + e), ...small().map((e) => "small: " + e)])()`) {
				t.Errorf("%s at %d px: %s", what, width, wrong)
			}
		}
		e2e.Must(t, chromedp.Do(page, chromedp.EmulateViewport(1280, 900)))
	}
	act(t, page, `location.hash = "#/readers"`, `await shows("No readers", "main")`)
	check("no readers")

	// One, of BTC alone. An empty list is said to show nothing.
	act(t, page, `await press("New readers")`, `await fill("#r-name", "ann")`, `await fill("#r-streams", "2")`,
		`await fill("#r-assets", "none")`, `await shows("sees no signals at all: Assets is an empty list", "dialog")`)
	check("a reader of nothing")
	act(t, page, `await fill("#r-assets", "some")`, `await fill("#r-assets-names", "BTC,")`,
		`await until("it sees something", () => !has("sees no signals", "dialog"))`,
		`await press("Create")`, `await until("the key is shown", () => find("dialog .secret code"))`)
	check("a new key")
	ann := e2e.NewClient(t, s.URL, evaluate[string](t, page, `find("dialog .secret code").innerText`))
	ann.Get("/v1/signals").Want(t, http.StatusOK)
	ann.Get("/v1/account").Want(t, http.StatusForbidden)
	listed := person.Get("/v1/auth/api-keys?view=true").Ok(t).Body
	if !strings.Contains(listed, `"view":{"assets":["BTC"]}`) || !strings.Contains(listed, `"max_connections":2`) {
		t.Errorf("the reader is %s", listed)
	}
	act(t, page, `await press("I have saved it")`, `await shows("Assets: BTC", "table")`, `await shows("0 of 2", "table")`,
		`await until("the secret is gone", () => !document.body.innerText.match(/ask_[0-9A-Za-z]{46}/))`)

	// Thirty at once, of which the list has two pages.
	act(t, page, `await press("New readers")`, `await fill("#r-name", "customers")`, `await fill("#r-count", "30")`,
		`await press("Create 30")`,
		`await until("the keys are shown", () => document.querySelectorAll("dialog .secret code").length === 30)`,
		`window.copied = []`, `
			Object.defineProperty(navigator, "clipboard", {value: {writeText: async (text) => void copied.push(text)}})`,
		`await press("Copy all")`, `await press("Copy as CSV")`, `await press("Copy the key of customers-1")`)
	check("thirty new keys")
	copied := evaluate[[]string](t, page, "copied")
	keys := strings.Split(copied[0], "\n")
	rows := strings.Split(copied[1], "\r\n")
	if len(keys) != 30 || len(rows) != 32 || rows[0] != "name,api_key" || rows[1] != "customers-1,"+keys[0] ||
		copied[2] != keys[0] {
		t.Errorf("copied are %q", copied)
	}
	last := e2e.NewClient(t, s.URL, keys[29])
	last.Get("/v1/signals").Want(t, http.StatusOK)
	act(t, page, `await press("I have saved them")`, `await shows("1 to 25 of 31", "main")`)
	check("the list")
	act(t, page, `await press("Oldest")`, `await shows("26 to 31 of 31", "main")`, `await shows("ann", "table")`,
		`await press("Revoke ann")`, `await shows("Requests with this key", "dialog")`, `find("dialog .danger").click()`,
		`await until("it is gone", () => !has("ann", "table"))`)
	ann.Get("/v1/signals").Want(t, http.StatusUnauthorized)

	// What is refused says what to do.
	b.answer("POST /v1/auth/api-key", problemAnswer(http.StatusConflict, "limit_reached", "There are 10000 readers."))
	act(t, page, `await press("New readers")`, `await fill("#r-name", "more")`, `await press("Create")`,
		`await shows("There are 10000 readers. Revoke readers that are no longer used", "dialog")`, `await press("Cancel")`)

	// By their names, of which another page of the list has some.
	act(t, page, `await press("Revoke by name…")`, `await fill("#r-prefix", "customers-")`, `await press("Revoke…")`,
		`await shows("also those on other pages", "dialog")`)
	check("what is to be revoked")
	last.Get("/v1/signals").Want(t, http.StatusOK)
	act(t, page, `await press("Revoke them all")`, `await shows("30 readers revoked")`, `await shows("No readers", "main")`)
	last.Get("/v1/signals").Want(t, http.StatusUnauthorized)
}
