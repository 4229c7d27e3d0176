package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// consolePages are the pages, with a text that each shows when it is loaded and holds nothing,
// and the path without which it has nothing to show.
var consolePages = []struct{ place, empty, path string }{
	{"live?direction=long", "No signal fits", "GET /v1/signals"},
	{"scorecard", "Nothing has closed yet", "GET /v1/scorecard"},
	{"weather", "No weather signals yet", "GET /v1/signals/weather"},
	{"content", "No texts yet", "GET /v1/signals"},
	{"agents", "of the service", "GET /v1/agents"},
	{"agents/my_agent", "There is no such agent", "GET /v1/agents/"},
	{"run", "A run takes up to", "GET /v1/agents/"},
	{"run?tab=schedules", "No schedules", "GET /v1/schedules"},
	{"run?tab=jobs", "No jobs", "GET /v1/jobs"},
	{"webhooks", "No webhook yet", "GET /v1/webhooks"},
	{"account", "No API keys", "GET /v1/auth/api-keys"},
	{"readers", "No readers", "GET /v1/auth/api-keys"},
	{"public", "not shown to anyone", "GET /v1/account/public"},
	{"signals/sig_01M7YQ1WTVKN9DZNWV9NV456V1", "There is no such signal", "GET /v1/signals/"},
	{"webhooks/whk_01M7YQ1WTVKN9DZNWV9NV456V1", "There is no such webhook", "GET /v1/webhooks/"},
}

// Each page says what it waits for, that it has nothing, and what went wrong; and it works
// again, without a reload, as soon as the service does.
func TestConsolePagesWithoutAnswers(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	account, err := s.Credentials().Accounts.CreateAccount(t.Context(), e2e.NewEmail(), e2e.Password) // has no key
	e2e.Must(t, err)
	b := newConsoleRelay(t, s.URL)
	broken := problemAnswer(http.StatusInternalServerError, "internal", "Something broke inside.")
	b.answer("GET /v1/agents", broken)
	page := openConsole(t, b.url, account.Email)
	act(t, page, `location.hash = "#/run"`, `await shows("Something broke inside", "main")`)
	b.answer("GET /v1/agents", nil)
	act(t, page, `await press("Try again")`, `await shows("Ask an agent")`)
	for _, p := range consolePages {
		release := make(chan struct{})
		b.answer(p.path, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
				broken(w, r)
			case <-r.Context().Done():
			}
		})
		act(t, page, fmt.Sprintf(`location.hash = "#/%s"`, p.place),
			fmt.Sprintf(`await until("%s: it is loading", () => find("main .wait"))`, p.place))
		close(release)
		act(t, page, fmt.Sprintf(`await until("%s: the fault is shown", () => has("Something broke inside", "main"))`, p.place),
			fmt.Sprintf(`if (has(%q, "main")) throw new Error("%s claims what it cannot know")`, p.empty, p.place))
		b.answer(p.path, nil)
		act(t, page, `await press("Try again")`, fmt.Sprintf(
			`await until("%s: it works again", () => has(%q, "main") && !has("Something broke"))`, p.place, p.empty), `sound()`)
	}

	t.Log("no answer at all")
	b.answer("GET /v1/", noAnswer)
	for _, p := range consolePages {
		if !strings.HasPrefix(p.place, "live") { // which shows what it has
			act(t, page, fmt.Sprintf(`location.hash = "#/%s"`, p.place),
				fmt.Sprintf(`await until("%s: it says so", () => has("The service does not answer", "main"))`, p.place))
		}
	}
	act(t, page, `await shows("The service does not answer. What you see may be old", ".top")`, `sound()`)
}

// The page works with an API that has more members, other words and other types of messages
// than it knows, and says what an API with less does not have.
func TestConsoleMeetsAnotherVersion(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	first := trader.AwaitRun("BTC", "momentum")
	b := newConsoleRelay(t, s.URL)
	strange := func(o map[string]any) {
		o["more"] = map[string]any{"nested": []any{1, nil}}
		o["status"], o["close_reason"], o["closed_at"] = "suspended", "margin_call", o["created_at"]
		o["strategy"], o["agent_id"], o["direction"] = "astrology_of_numbers", "oracle", "sideways"
	}
	b.change("GET /v1/signals/"+first.ID, func(o map[string]any) {
		strange(o)
		o["status"] = "closed"
	})
	b.change("GET /v1/signals?", func(o map[string]any) {
		for _, item := range o["signals"].([]any) {
			strange(item.(map[string]any))
		}
	})
	b.change("GET /v1/signals/"+first.ID+"/history", func(o map[string]any) {
		for _, e := range o["events"].([]any) {
			e.(map[string]any)["type"] = "split_in_two"
		}
	})
	b.change("GET /v1/signals/weather", func(o map[string]any) {
		_ = json.Unmarshal([]byte(`[{"signal_id":"wsig_1","region":"moon","commodity":"cheese","direction":"long",
		"confidence":0.5,"initial_confidence":0.5,
			"expected_impact":"","created_at":"2026-11-21T09:30:00.000Z",
		"weather_event":{"type":"meteor_shower","severity":"apocalyptic",
			"location":"Tycho","temperature_deviation":1,"forecast_date":"2026-11-22"}}]`), jsonInto(o, "signals"))
	})
	b.change("GET /v1/jobs", func(o map[string]any) {
		_ = json.Unmarshal([]byte(`[{"job_id":"job_1","kind":"dream","agent_id":"oracle","strategy":"astrology","status":"paused",
			"created_at":"2026-11-21T09:30:00.000Z","started_at":null,"completed_at":null,"error":null}]`), jsonInto(o, "jobs"))
	})
	b.answer("GET /dashboard/price-", noSuchPath) // after an update its files have other names
	b.answer("GET /v1/summary", noSuchPath)
	b.answer("GET /v1/assets", noSuchPath)
	page := openConsole(t, b.url, account.Email)
	act(t, page, fmt.Sprintf(`await until("the row is there", () => find("[data-row=%s]"))`, first.ID),
		`await shows("astrology of numbers", "main")`, `await shows("This service has no")`,
		`await until("both are named", () => has("/v1/summary") && has("/v1/assets"))`,
		fmt.Sprintf(`location.hash = "#/signals/%s"`, first.ID), `await shows("margin call", "main")`,
		`await shows("The chart could not be loaded")`, `await shows("Bars as a table")`, `await shows("split in two", "main")`,
		`location.hash = "#/weather"`, `await shows("apocalyptic", "main")`, `await shows("meteor shower", "main")`,
		`location.hash = "#/run?tab=jobs"`, `await shows("paused", "main")`,
		`if (find('[class~="undefined"]')) throw new Error("an unknown word became a class")`, `sound()`)

	t.Log("messages of types and channels that it does not know")
	live := b.newest(1)
	live.says(`{"type":"signal.split","id":"9999999999998-0","data":null,"timestamp":"2026-11-21T09:30:00.000Z"}`,
		`{"type":"subscribed","data":{"ref":"x","channels":["signal.new"],"denied":["signal.dreams"],"resumed":null},
			"timestamp":"2026-11-21T09:30:00.000Z"}`)
	b.answer("GET /v1/assets", nil)
	act(t, page, `tick()`, `await until("prices are back", () => !has("/v1/assets"))`,
		`if (!find(".state.live")) throw new Error("not live")`,
		`sound()`)

	t.Log("an answer that the page cannot draw")
	b.change("GET /v1/scorecard", func(o map[string]any) { o["statistics"] = map[string]any{"count": 7} })
	act(t, page, `location.hash = "#/scorecard"`, `await shows("This page cannot show what the service answered")`,
		`location.hash = "#/webhooks"`, `await shows("No webhook yet")`)

	b.answer("GET /v1/scorecard", nil)

	t.Log("an update of the service while the page is open")
	b.answer("GET /dashboard/account-", noSuchPath)
	b.change("GET /v1/signals/"+first.ID, func(o map[string]any) { o["status"] = "suspended" })
	act(t, page, `location.hash = "#/account"`, `await shows("The service may have been updated")`,
		fmt.Sprintf(`location.hash = "#/signals/%s"`, first.ID), `await shows("suspended", "h1")`, `sound()`)
}

// jsonInto returns a place into which JSON is read and then put into a member of an object.
func jsonInto(o map[string]any, name string) *jsonMember { return &jsonMember{o, name} }

type jsonMember struct {
	o    map[string]any
	name string
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *jsonMember) UnmarshalJSON(text []byte) error {
	var v any
	err := json.Unmarshal(text, &v)
	m.o[m.name] = v
	return err
}

// Whatever the stream sends, the page stays up and shows what it can; it counts what it cannot
// read; and it comes back as the close code asks.
func TestConsoleMeetsGarbage(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	first := trader.AwaitRun("BTC", "momentum")
	act(t, page, fmt.Sprintf(`await until("a row is there", () => find("[data-row=%s]"))`, first.ID))
	live := b.newest(1)
	live.send(websocket.BinaryMessage, "\x00\x01")
	unreadable := []string{"{", "[]", "null", "7", `"text"`, "{}", `{"type":7}`, `{"type":"signal.new","id":9,"data":{}}`,
		`{"type":"signal.new","id":"9000000000000-1","data":null}`, `{"type":"signal.new","id":"9000000000000-2","data":[]}`,
		`{"type":"signal.new","id":"9000000000000-3","data":{"signal_id":"sig_x","asset":5}}`,
		`{"type":"signal.closed","id":"9000000000000-4","data":{"signal_id":7}}`,
		`{"type":"signal.updated","id":"9000000000000-5","data":{"signal_id":"` + first.ID + `","confidence":"high"}}`,
		`{"type":"system.notification","id":"9000000000000-6","data":{"message":{"a":1},"severity":null}}`,
		`{"type":"signal.new","id":"9000000000000-7","data":{"signal_id":"sig_y","agent_id":"a","asset":"A","strategy":"s",
			"direction":"long","confidence":1e999,"entry_price":1,"stop_loss":1,"take_profit":1,"metadata":{},"created_at":"x"}}`}
	live.says(unreadable...)
	act(t, page, fmt.Sprintf(`await shows("%d messages of the stream could not be read")`, len(unreadable)+1))
	// The reply makes the page load the list again, without what comes before it.
	live.says(`{"type":"subscribed","data":null,"timestamp":"2026-11-21T09:30:00.000Z"}`,
		`{"type":"signal.updated","id":"9000000000001-0","data":{"signal_id":"sig_none","confidence":0.5,"updated_at":"x"}}`,
		`{"type":"signal.closed","id":"9000000000001-1","data":{"signal_id":"sig_none","close_reason":null,"exit_price":1e308,
			"pnl_percent":-1e308,"pnl_absolute":null}}`,
		`{"type":"signal.new","id":"9000000000001-2","data":{"signal_id":"sig_huge","agent_id":"trading","asset":"HUGE",
			"strategy":"x",
			"direction":"long","confidence":1e308,"entry_price":1e308,"stop_loss":-1e308,"take_profit":1e308,"metadata":{},
			"created_at":"not a time"},"timestamp":"not a time"}`,
		`{"type":"pong","data":null}`, `{"type":"error","data":null}`)
	for n := range 5000 {
		live.says(fmt.Sprintf(`{"type":"signal.rumour","id":"9000000000002-%d","data":{"n":%d}}`, n, n))
	}
	live.says(`{"type":"system.notification","id":"9000000000003-0","data":{"message":"The end of it.","severity":"unheard-of"}}`)
	act(t, page, `await shows("The end of it.")`, `await shows("HUGE")`, `if (!find(".state.live")) throw new Error("not live")`,
		fmt.Sprintf(`if (!find("[data-row=%s]")) throw new Error("the row is gone")`, first.ID), `sound()`)

	// Each close is followed by one connection that resumes after the last event.
	for n, c := range []struct{ code, wait int }{{1001, 0}, {1011, 0}, {4000, 0}, {4008, 0}, {1003, 5}, {4400, 5}, {4429, 5}} {
		made := trader.AwaitRun("BTC", "momentum")
		act(t, page, fmt.Sprintf(`await until("the row is there", () => find("[data-row=%s]"))`, made.ID))
		b.newest(n + 1).close(c.code)
		if c.wait > 0 {
			act(t, page, fmt.Sprintf(`const shown = await until("it waits after %d",
				() => find(".state").innerText.match(/next try in (\d+) s/))`,
				c.code), fmt.Sprintf(`if (Number(shown[1]) < %d - 1)
					throw new Error("after %d it waits for " + shown[1] + " s")`, c.wait, c.code),
				`dispatchEvent(new Event("online"))`) // which is a reason not to wait
		}
		again := b.newest(n + 2)
		act(t, page, `await until("it is live again", () => find(".state.live"))`)
		if again.asked.Get("last_event_id") == "" {
			t.Errorf("after %d the page subscribes with %v", c.code, again.asked)
		}
	}
	renewals := b.count("POST /v1/auth/refresh")
	b.newest(8).close(4401)
	b.newest(9)
	act(t, page, `await until("it is live again", () => find(".state.live"))`)
	if more := b.count("POST /v1/auth/refresh") - renewals; more != 1 {
		t.Errorf("after 4401 the token is renewed %d times", more)
	}

	t.Log("closed again and again")
	for n := range 4 {
		again := b.newest(9 + n)
		act(t, page, `await until("it is live", () => find(".state.live"))`)
		again.close(4008)
		act(t, page, `await until("it is not", () => !find(".state.live"))`)
	}
	act(t, page, `await until("the waits grow", () => { const wait = find(".state").innerText.match(/next try in (\d+) s/);
		return wait && Number(wait[1]) >= 2; })`,
		`sound()`)
}
