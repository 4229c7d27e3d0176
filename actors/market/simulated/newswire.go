package simulated

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// newsEvery is the mean time between two items of an asset, and NewsFor the time for which news
	// are kept and generated at the start, in milliseconds of market time.
	newsEvery = 20 * 60_000
	NewsFor   = 7 * 86_400_000
	// newsTruth is the share of items whose sign agrees with the drift of the regime.
	newsTruth = 0.70
)

// newswire generates the news of one simulated asset.
type newswire struct {
	k     *assets.Spec
	own   *rand.PCG
	next  int64 // market time of the next item
	count int64 // items so far
}

func newNewswire(seed uint64, k *assets.Spec, from int64) *newswire {
	w := &newswire{k: k, own: generator(seed, newsStream+k.Symbol)}
	w.schedule(from)
	return w
}

func (w *newswire) schedule(after int64) {
	w.next = after + int64(math.Ceil(rand.New(w.own).ExpFloat64()*newsEvery))
}

func (w *newswire) skipTo(from int64) {
	if w.next < from {
		w.schedule(from)
	}
}

// until returns the items up to the market time at, while the market is in regime.
func (w *newswire) until(at int64, regime int, g prices.Grid) []marketdata.NewsItem {
	var items []marketdata.NewsItem
	for w.next <= at {
		items = append(items, w.item(g.Wall(w.next), regime))
		w.schedule(w.next)
	}
	return items
}

func (w *newswire) item(at int64, regime int) marketdata.NewsItem {
	r := rand.New(w.own)
	good := r.IntN(2) == 0
	switch regime {
	case regimeRising:
		good = r.Float64() < newsTruth
	case regimeFalling:
		good = r.Float64() >= newsTruth
	}
	w.count++
	headline, body := w.text(r, good)
	return marketdata.NewsItem{
		ID: fmt.Sprintf("sim:%s:%d:%d", w.k.Symbol, at, w.count), At: at, Headline: headline, Body: body,
		Source: Name, Weight: 1, Symbols: []string{w.k.Symbol},
	}
}

// text writes an item. Verbs, reasons and figures are drawn separately, so that few items repeat.
func (w *newswire) text(r *rand.Rand, good bool) (headline, body string) {
	words := badNews
	if good {
		words = goodNews
	}
	reasons := words.reasons[w.k.Class]
	verb, reason := pick(r, words.verbs), pick(r, reasons)
	size := 0.3 + 4*r.Float64()*r.Float64()
	when := pick(r, occasions)
	switch r.IntN(8) {
	case 0: // The headline does not name the asset.
		headline = fmt.Sprintf("%s: %s, %s", pick(r, desks), reason, when)
	case 1:
		headline = fmt.Sprintf("%s %s %s as %s", when, w.k.Name, verb, reason)
	case 2:
		headline = fmt.Sprintf("%s %s, analysts see a move of %.1f%%", w.k.Name, verb, size)
	case 3:
		headline = fmt.Sprintf("%s %s after %s", w.k.Name, pick(r, words.verdicts), reason)
	default:
		headline = fmt.Sprintf("%s %s %.1f%% %s, %s", w.k.Name, verb, size, when, reason)
	}
	body = fmt.Sprintf("%s (%s) moved by %.1f%% on volume %d%% of its mean; desks point out that %s.",
		w.k.Name, w.k.Symbol, size, 60+r.IntN(120), pick(r, reasons))
	return headline, body
}

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// wording holds the words for news of one sign.
type wording struct {
	verbs    []string
	verdicts []string
	reasons  map[string][]string // by class
}

var occasions = []string{"in early trading", "before noon", "in late trading", "this session", "overnight",
	"within an hour", "by midday", "at the open", "near the close", "on heavy volume", "in quiet trading",
	"for a second day"}

var desks = []string{"Market wrap", "Desk note", "Flows", "Morning note", "Evening note", "Chart check"}

var goodNews = wording{
	verbs: []string{"surges", "rallies", "climbs", "jumps", "rises", "rebounds", "soars", "outperforms", "gains",
		"breaks above resistance", "reaches a record high"},
	verdicts: []string{"gets an upgrade", "beats expectations", "turns bullish", "tops estimates", "wins approval"},
	reasons: map[string][]string{
		assets.Crypto: {"strong demand from funds lifts volumes", "network activity rises to a record high",
			"holders remain bullish", "an upgrade of the network is approved",
			"exchange reserves hint at strong demand", "buyers welcome clear rules"},
		assets.Stock: {"quarterly results beat estimates", "a buyback is announced", "analysts upgrade the outlook",
			"margins come in above expectations", "the board raises guidance", "strong demand supports orders"},
		assets.FX: {"output data come in better than expected", "the central bank sounds bullish on growth",
			"exports beat estimates", "confidence rises above expectations", "strong demand for its bonds supports it",
			"employment tops estimates"},
		assets.Metal: {"strong demand from central banks supports it", "funds turn bullish",
			"coin sales beat estimates", "inflows reach a record high", "jewellers report strong demand",
			"supply cuts are confirmed"},
		assets.Commodity: {"inventories draw more than expected", "strong demand meets supply cuts",
			"exports beat estimates", "output cuts are confirmed", "funds turn bullish", "stockpiles fall again"},
	},
}

var badNews = wording{
	verbs: []string{"plunges", "tumbles", "slumps", "falls", "declines", "drops", "slides", "underperforms", "sinks",
		"breaks below support", "hits a record low"},
	verdicts: []string{"gets a downgrade", "misses expectations", "turns bearish", "falls short of estimates",
		"faces a probe"},
	reasons: map[string][]string{
		assets.Crypto: {"a hack drains a lending pool", "regulators open a probe", "weak demand empties order books",
			"traders turn bearish", "an outage halts withdrawals", "a lawsuit names an exchange"},
		assets.Stock: {"quarterly results miss estimates", "a product recall widens", "analysts downgrade the outlook",
			"a lawsuit is filed", "the board lowers guidance", "weak demand hurts orders"},
		assets.FX: {"output data come in worse than expected", "the central bank warns of weak demand",
			"exports miss estimates", "sentiment surveys slump", "a bond sale falls short",
			"employment misses estimates"},
		assets.Metal: {"weak demand meets higher yields", "funds turn bearish", "coin sales miss estimates",
			"outflows reach a record low for holdings", "jewellers report weak demand", "a probe of dealers widens"},
		assets.Commodity: {"inventories build more than expected", "weak demand meets a supply glut",
			"exports miss estimates", "stockpiles rise again", "funds turn bearish", "buyers default on cargoes"},
	},
}
