package console

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// drawnScript notes the texts that the page draws on its canvases: what a canvas got in the last
// frame in which it was drawn is what a reader sees.
const drawnScript = `
const drawn = new Map();
let frame = 0;
(function next() { frame++; requestAnimationFrame(next) })();
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
	if (drawn.get(this.canvas)?.frame !== frame) drawn.set(this.canvas, { frame, texts: [] });
	const at = this.getTransform().transformPoint({ x, y });
	drawn.get(this.canvas).texts.push({ text: String(text), x: at.x, y: at.y });
	return fillText.call(this, text, x, y, ...rest);
};
window.textsOn = (selector, only) =>
	[...document.querySelectorAll(selector)].flatMap((canvas, i) => (only ?? i) === i ? drawn.get(canvas)?.texts ?? [] : []);
`

// drawnText is a text on a canvas, with its place there.
type drawnText struct {
	Text string
	X, Y float64
}

// priceAxis is the canvases of the price chart's axis.
const priceAxis = ".chart tr:first-child td:last-child canvas"

// Prices of any size can be read: those of a coin of a millionth, of a currency and of a million.
// The chart has an axis for them, and each number on the page is the one of the API.
func TestConsoleShowsPricesOfAnySize(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, account := e2e.StartTrading(t, redis)
	prices := e2e.NewMarket(t, redis.Client())
	b := newConsoleRelay(t, s.URL)
	b.prelude = drawnScript
	page := openConsole(t, b.url, account.Email)
	for asset, price := range map[string]float64{"MILLIONTH": 1e-6, "EURUSD": 1.0833, "MILLION": 1e6} {
		swing := 1.0
		if asset == "EURUSD" {
			swing = .02 // currencies move by little
		}
		last := prices.Scaled(asset, price, swing)
		s.AwaitTrade(t, asset, last)
		ended := trader.AwaitRun(asset, "momentum")
		prices.Tick(asset, e2e.Decimal(*ended.Target+(*ended.Target-*ended.Entry)/100))
		e2e.Eventually(t, "it closes", func() bool { return trader.State(ended.ID).Status == "closed" })
		open := trader.AwaitRun(asset, "momentum")
		for _, made := range []e2e.WireSignal{open, ended} {
			act(t, page, fmt.Sprintf(`location.hash = "#/live?asset=%s"`, asset),
				fmt.Sprintf(`await until("the row is there", () => find("[data-row=%s]"))`, made.ID))
			row := fmt.Sprintf("[data-row=%s]", made.ID)
			cell := func(class string) string {
				return evaluate[string](t, page,
					fmt.Sprintf(`find("%s").closest("[role=row]").querySelector("%s").innerText`, row, class))
			}
			isPrice(t, cell(".c-price .under"), *made.Entry)
			isPrice(t, cell(".c-levels .main"), *made.Target)
			isPrice(t, cell(".c-levels .under"), *made.Stop)

			act(t, page, fmt.Sprintf(`location.hash = "#/signals/%s"`, made.ID), `await shows("Chance over time")`,
				`await until("the ruler is drawn", () => find(".ruler.big .below"))`, `await settled()`)
			below := evaluate[[]string](t, page, `[...document.querySelectorAll(".ruler.big .below")].map((e) => e.innerText)`)
			for i, level := range []float64{*made.Stop, *made.Entry, *made.Target} {
				isPrice(t, below[i], level)
			}
			if made.ID == open.ID { // the other ended before there was a bar of its time
				act(t, page, fmt.Sprintf(`await until("the axis is drawn", () => textsOn("%s").length > 0)`, priceAxis),
					`find("figure details").open = true`)
				checkAxis(t, page, asset, below)
				checkBars(t, page, asset)
			}
			checkTexts(t, page)
		}
	}
	act(t, page, `location.hash = "#/scorecard"`, `await shows("By strategy")`, `await settled()`)
	checkTexts(t, page)
	act(t, page, `sound()`)
}

// number reads a price of the page.
func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), ",", ""), 64)
	if err != nil {
		t.Errorf("%q is no price", text)
	}
	return v
}

// isPrice fails the test if a text differs from a price by more than its last digits.
func isPrice(t *testing.T, text string, want float64) {
	t.Helper()
	if got := number(t, text); math.Abs(got-want) > 1e-4*want {
		t.Errorf("the page has %s for the price %s", text, e2e.Decimal(want))
	}
}

// checkAxis fails the test if the price chart has no axis that one can read: three prices at
// least, each another one, in even steps and with the higher above the lower.
func checkAxis(t *testing.T, page context.Context, asset string, levels []string) {
	t.Helper()
	texts := evaluate[[]drawnText](t, page, fmt.Sprintf(`textsOn(%q)`, priceAxis))
	var ticks []drawnText
	var values []float64
	left := 0.0 // of the steps' texts; those of levels are smaller and begin before it
	for _, l := range texts {
		left = max(left, l.X)
	}
	for _, l := range texts {
		if l.X == left && !slices.Contains(levels, l.Text) {
			ticks = append(ticks, l)
		}
	}
	slices.SortFunc(ticks, func(a, b drawnText) int { return int(b.Y - a.Y) })
	for _, l := range ticks {
		values = append(values, number(t, l.Text))
	}
	if len(values) < 3 {
		t.Errorf("the axis of %s has %v beside the levels %v", asset, ticks, levels)
		return
	}
	step := math.Inf(1)
	for i := range values[1:] {
		step = min(step, values[i+1]-values[i])
	}
	if step <= 0 {
		t.Errorf("the axis of %s does not rise: %v", asset, ticks)
	}
	for i := range values[1:] {
		if steps := (values[i+1] - values[i]) / step; math.Abs(steps-math.Round(steps)) > .01 {
			t.Errorf("the axis of %s has uneven steps: %v", asset, values)
		}
	}
}

// checkBars fails the test if the table of bars has a price of nothing.
func checkBars(t *testing.T, page context.Context, asset string) {
	t.Helper()
	rows := evaluate[[][]string](t, page,
		`[...document.querySelectorAll("figure tbody tr")].map((r) => [...r.querySelectorAll("td.num")].map((e) => e.innerText))`)
	if len(rows) == 0 {
		t.Errorf("no bars of %s are listed", asset)
		return
	}
	for _, cells := range rows {
		for _, text := range cells {
			if v := number(t, text); v <= 0 {
				t.Errorf("a bar of %s has the price %s", asset, text)
			}
		}
	}
}

// checkTexts fails the test if the page has a number that no trader writes, or if a curve's axis
// has the same label twice.
func checkTexts(t *testing.T, page context.Context) {
	t.Helper()
	for _, bad := range evaluate[[]string](t, page,
		`find("main").innerText.match(/.*(NaN|Infinity|undefined|\d[eE][-+]?\d).*/g) ?? []`) {
		t.Errorf("the page has %q", bad)
	}
	for i := range evaluate[int](t, page, `document.querySelectorAll(".plot canvas").length`) {
		var seen []string
		for _, l := range evaluate[[]drawnText](t, page, fmt.Sprintf(
			`textsOn(".plot canvas", %d)`, i)) {
			if l.Text != "" && slices.Contains(seen, l.Text) {
				t.Errorf("an axis has %q twice: %v", l.Text, seen)
			}
			seen = append(seen, l.Text)
		}
	}
}
