package console

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// A tab that is hidden draws nothing and leaves the stream after a minute. When it is seen
// again, it resumes once and asks for each thing once.
func TestConsoleIsHidden(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	b := newConsoleRelay(t, s.URL)
	hidden := make(chan struct{})
	b.answer("GET /v1/agents", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-hidden: // an answer that the page waits for comes while it is hidden
		case <-r.Context().Done():
		}
		b.proxy.ServeHTTP(w, r)
	})
	page := openConsole(t, b.url, account.Email)
	row := func(made e2e.WireSignal) string { return fmt.Sprintf(`find("[data-row=%s]")`, made.ID) }
	begun := time.Now()
	first := trader.AwaitRun("BTC", "momentum")
	act(t, page, fmt.Sprintf(`await until("the row is there", () => %s)`, row(first)))
	t.Logf("a run is seen %s after it was asked for", time.Since(begun).Round(time.Millisecond))

	act(t, page, `window.drawn = []; new MutationObserver((list) => drawn.push(...list.map((m) =>
		`+"`${m.type} of ${m.target.outerHTML ?? m.target.data}`"+`))).observe(find("main"), {
		subtree: true, childList: true,
		attributes: true, characterData: true}); hide(true)`)
	close(hidden)
	second := trader.AwaitRun("ETH", "momentum")
	live := b.newest(1)
	e2e.Eventually(t, "the page gets the second one", func() bool { return live.sent(second.ID) })
	// The list waits for less before it moves.
	act(t, page, `tick()`, `await new Promise((resolve) => setTimeout(resolve, 600))`,
		fmt.Sprintf(`if (%s || drawn.length > 0) throw new Error("a hidden page is drawn: " + drawn)`, row(second)),
		`later(61000)`, `tick()`)
	e2e.Eventually(t, "the page leaves the stream", live.left)
	third := trader.AwaitRun("AAPL", "momentum")
	b.forget()
	act(t, page, `for (let n = 0; n < 9; n++) { later(60000); tick() }`, `await fetch("/healthz")`,
		`if (drawn.length > 0) throw new Error("a hidden page is drawn: " + drawn)`)
	if asked := b.forget(); len(asked) != 1 {
		t.Errorf("a hidden page asks for %v", asked)
	}

	act(t, page, `hide(false)`, `await shows("Weather Agent")`,
		fmt.Sprintf(`await until("all rows are there", () => %s && %s)`, row(second), row(third)),
		`await shows("none missing")`, `if (has("Gap ")) throw new Error("a gap is reported")`, `sound()`)
	times := map[string]int{}
	for _, name := range b.forget() {
		if strings.HasPrefix(name, "GET /v1/ws/dashboard?") { // its query has a token
			name = "GET /v1/ws/dashboard"
		}
		times[name]++
	}
	if n := times["GET /v1/ws/dashboard"]; n != 2 {
		t.Errorf("it makes %d connections, for events and for prices", n)
	}
	delete(times, "GET /v1/ws/dashboard")
	for _, name := range slices.Sorted(maps.Keys(times)) {
		if times[name] > 1 {
			t.Errorf("when it is seen again, the page asks for %s %d times", name, times[name])
		}
	}
	if asked := b.newest(2).asked; len(b.open()) != 2 || asked.Get("last_event_id") == "" {
		t.Errorf("it makes %d connections and subscribes with %v", len(b.open())-1, asked)
	}
}
