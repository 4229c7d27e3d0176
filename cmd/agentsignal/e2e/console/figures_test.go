package console

import (
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// figuresScript notes each pair of figures that the header and the page show for one thing.
const figuresScript = `
const pairs = new Set();
const figure = (within, pattern) =>
	[...document.querySelectorAll(within)].map((e) => e.innerText.match(pattern)?.[1]).find(Boolean);
(function look() {
	for (const [name, header, page] of [
		["open", figure(".figures", /Open\s+([\d,]+)/i), figure(".group", /Open\s+([\d,]+)/)],
		["closed", figure(".figures", /Closed today\s+([\d,]+)/i), figure(".panel .title", /^([\d,]+) closed/m)],
		["net", figure(".figures", /Net today\s+(.+ R)/i), figure(".tile", /Total after costs\s+(.+ R)/i)],
	]) if (header && page) pairs.add([name, header, page].join(" | "));
	requestAnimationFrame(look);
})();
`

// curveScript counts how often the scorecard is without its curve.
const curveScript = `
const curve = (count) => document.querySelector('[aria-label^="The sum of ' + count + ' results"]');
let lost = 0;
new MutationObserver(() => document.querySelector("[aria-label^='The sum of']") || lost++)
	.observe(document.body, { childList: true, subtree: true });
`

// The header and the page beside it show the same figures at any time, and soon those of the API.
func TestConsoleFiguresAgree(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, account := e2e.StartTrading(t, redis)
	prices := e2e.NewMarket(t, redis.Client())
	closeOne := func() {
		made := trader.Run("ACME", "momentum")
		prices.Tick("ACME", e2e.Decimal(*made.Target+(*made.Target-*made.Entry)/100))
		e2e.Eventually(t, "it closes", func() bool { return trader.State(made.ID).Status == "closed" })
	}
	closeOne()
	trader.Run("ACME", "momentum")
	page := openConsole(t, s.URL, account.Email)
	evaluate[any](t, page, figuresScript)
	act(t, page, `await until("the lists are there", () => has("Open", ".figures") && figure(".group", /Closed (1)/))`)
	trader.Run("ACME", "momentum")
	act(t, page, `await until("the header has it", () => figure(".figures", /Open\s+([\d,]+)/i) === "2")`,
		`location.hash = "#/scorecard"`, `await shows("Total after costs")`)
	evaluate[any](t, page, curveScript)
	act(t, page, `await until("the curve is there", () => curve(1))`, `lost = 0`)
	closeOne() // and the two that are open
	act(t, page, `await until("the header has it", () => figure(".figures", /Closed today\s+([\d,]+)/i) === "4")`,
		`await settled()`, `await until("the curve has it", () => curve(4))`)
	if lost := evaluate[int](t, page, `lost`); lost != 0 {
		t.Errorf("the curve is not there %d times while the next one is read", lost)
	}
	for _, pair := range evaluate[[]string](t, page, `[...pairs]`) {
		if p := strings.Split(pair, " | "); p[1] != p[2] {
			t.Errorf("the header has %s %s, and the page beside it %s", p[0], p[1], p[2])
		}
	}
}
