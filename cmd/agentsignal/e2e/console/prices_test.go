package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// Prices have a connection of their own. It follows the assets of the open signals, ends while the
// page is hidden, comes back after it was closed, and is given up where the service refuses it.
func TestConsoleFollowsPrices(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	first := trader.AwaitRun("BTC", "momentum")
	act(t, page, fmt.Sprintf(`await until("the row is there", () => find("[data-row=%s]"))`, first.ID))
	live := b.prices(1)
	if live.asked.Get("assets") != "BTC" {
		t.Errorf("the page asks for prices by %v", live.asked)
	}
	b.answer("GET /v1/assets", unavailable) // so that the stream alone has prices
	price := func(s *relayStream, price string) {
		s.says(fmt.Sprintf(`{"type":"market.price","data":{"asset":"BTC","price":%s,"at":"2099-01-01T00:00:00.000Z",
			"source":"simulated"},"timestamp":"2099-01-01T00:00:00.000Z"}`, price))
	}
	live.says(`{`, `{"type":"market.price","data":null}`, `{"type":"market.price","data":{"asset":"BTC","price":"1","at":"x"}}`)
	price(live, "4321.5")
	act(t, page, `await shows("4,321.50", "main")`, `sound()`)

	second := trader.AwaitRun("ETH", "momentum")
	act(t, page, fmt.Sprintf(`await until("the row is there", () => find("[data-row=%s]"))`, second.ID))
	e2e.Eventually(t, "the page asks for both", func() bool {
		list := live.subscribes()
		return len(list) > 0 && strings.Contains(list[len(list)-1], `"assets":["BTC","ETH"]`)
	})

	act(t, page, `hide(true)`)
	e2e.Eventually(t, "a hidden page leaves the stream of prices", live.left)
	act(t, page, `hide(false)`)
	b.prices(2).close(4401)
	refusing := b.prices(3)
	refusing.says(`{"type":"error","data":{"ref":null,"code":"unknown_channel","message":"no channel"},"timestamp":"x"}`)
	e2e.Eventually(t, "the page gives prices up", refusing.left)
	b.answer("GET /v1/assets", nil)
	third := trader.AwaitRun("AAPL", "momentum")
	act(t, page, fmt.Sprintf(`await until("the row is there", () => find("[data-row=%s]"))`, third.ID),
		`dispatchEvent(new Event("online"))`, `tick()`, `await new Promise((resolve) => setTimeout(resolve, 600))`, `sound()`)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sockets {
		if !s.left() && s.brings("market.price") {
			t.Errorf("the page asks again for what the service refused: %v", s.asked)
		}
	}
}

// A key that is revoked elsewhere leaves the page of the account by itself.
func TestConsoleSeesRevokedKeys(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	_, account := s.Account(t)
	session := s.Client(t).Login(account.Email, e2e.Password)
	owner := e2e.NewClient(t, s.URL, session.Access)
	key := owner.Key("robot", "")
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	act(t, page, `location.hash = "#/account"`, `await shows("robot", "table")`)
	owner.Do(http.MethodDelete, "/v1/auth/api-keys/"+key.ID, "").Want(t, http.StatusNoContent)
	act(t, page, `tick()`, `await until("it is gone", () => find("table") && !has("robot", "table"))`, `sound()`)
}

// A page of a signal that closed while the stream had a gap shows that it has.
func TestConsoleSignalAfterAGap(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	made := trader.AwaitRun("BTC", "momentum")
	act(t, page, fmt.Sprintf(`location.hash = "#/signals/%s"`, made.ID), `await shows("Time left")`)
	b.change("GET /v1/signals/"+made.ID, func(o map[string]any) {
		o["status"], o["close_reason"] = "closed", "stop_loss"
		o["closed_at"], o["r"], o["exit_price"], o["pnl_percent"] = "2026-11-21T09:30:00.000Z", -1, 1, -1
	})
	b.newest(1).says(`{"type":"subscribed","data":{"ref":"s","channels":["signal.new"],"denied":[],
		"resumed":{"replayed":0,"complete":false}},"timestamp":"2026-11-21T09:30:00.000Z"}`)
	act(t, page, `await shows("closed: stop", "h1")`, `sound()`)
}
