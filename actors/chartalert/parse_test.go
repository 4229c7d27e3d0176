package chartalert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// shapes are bodies in the forms that chart programs and relays document, with made-up values. want
// is Alert.String, or the code of the error.
var shapes = []struct{ name, body, want string }{
	// The forms of the service.
	{"one line", `long BTCUSD sl=1.5% tp=3%`, "open long BTCUSD, stop 1.5%, target 3%"},
	{"lines with colons", "ticker: BTCUSD\naction: buy\nstop loss: 95.5\ntake profit: 2R",
		"open long BTCUSD, stop 95.5, target 2R"},
	{"average true ranges", `long BTCUSD sl=2atr tp=3.5ATR`, "open long BTCUSD, stop 2 ATR, target 3.5 ATR"},
	{"lines with equals signs", "Ticker=BTCUSD\r\nAction=Sell\r\nSL=1.5 %\r\n", "open short BTCUSD, stop 1.5%"},
	{"object with levels as submitted", `{"asset":"BTC","direction":"long","stop":{"atr":1.5},"target":{"r":2}}`,
		"open long BTC, stop 1.5 ATR, target 2R"},
	{"object with everything", `{"asset":"BTC","side":"short","stop":"2%","target":"2.5r","price":"67000.5","interval":"60",
		"strategy":"momentum","reference":"a-17","confidence":"62%"}`,
		"open short BTC, strategy momentum, stop 2%, target 2.5R, price 67000.5, interval 60, reference a-17, confidence 0.62"},
	{"position on one line", "BTCUSD market_position=flat", "close BTCUSD, by position flat"},
	{"exit of a direction on one line", "exit long BTCUSD", "close long BTCUSD"},
	{"commas", "buy, BTCUSD, sl=1.5%, tp=3%", "open long BTCUSD, stop 1.5%, target 3%"},
	{"text in quotes", `short ETHUSD comment="a, b = c" sl=3%`, "open short ETHUSD, stop 3%; kept: comment"},

	// TradingView. Placeholders are filled in.
	{"TradingView: strategy, entry", `{"ticker":"BTCUSDT.P","action":"buy","market_position":"long","prev_market_position":"flat",
		"price":67000.1,"interval":"240","id":"Long entry","contracts":"0.5"}`,
		"open long BTCUSDT, by position long, price 67000.1, interval 240 (re-scored on 1h); kept: contracts, id"},
	{"TradingView: strategy, exit by a sell",
		`{"ticker":"BTCUSDT","action":"sell","market_position":"flat","prev_market_position":"long"}`,
		"close BTCUSDT, by position flat"},
	{"TradingView: strategy, reversal",
		`{"ticker":"AAPL","action":"sell","market_position":"short","prev_market_position":"long"}`,
		"open short AAPL, by position short"},
	{"TradingView: strategy, a part of a long is sold", `{"ticker":"AAPL","action":"sell","market_position":"long"}`,
		"open long AAPL, by position long"},
	{"TradingView: values grouped in strategy",
		`{"ticker":"AAPL","exchange":"NASDAQ","interval":"5","time":"2026-03-02T15:00:00Z",
		"bar":{"time":"2026-03-02T15:00:00Z","open":201.1,"high":202,"low":200.9,"close":201.7,"volume":1800},
		"strategy":{"position_size":10,"order_action":"buy","order_contracts":10,"order_price":201.7,"order_id":"L",
		"market_position":"long","market_position_size":10,"prev_market_position":"flat","prev_market_position_size":0}}`,
		"open long AAPL, by position long, price 201.7, interval 5; kept: bar.high, bar.low, bar.open, bar.time, bar.volume, " +
			"exchange, strategy.market_position_size, strategy.order_contracts, strategy.order_id, strategy.order_price, " +
			"strategy.position_size, strategy.prev_market_position_size, time"},
	{"TradingView: strategy with an order inside", `{"strategy":{"order":{"action":"sell","contracts":"1"}},"ticker":"EURUSD"}`,
		"open short EURUSD; kept: strategy.order.contracts"},
	{"TradingView: own names with dots", `{"strategy.order.action":"buy","ticker":"EURUSD"}`, "open long EURUSD"},
	{"TradingView: direction holds the position, entry", `{"ticker":"SOLUSDT","action":"buy","direction":"long","close":155.2}`,
		"open long SOLUSDT, price 155.2"},
	{"TradingView: direction holds the position, exit", `{"ticker":"SOLUSDT","action":"sell","direction":"flat","close":155.2}`,
		"close SOLUSDT, price 155.2"},
	{"TradingView: direction holds the position, partial exit", `{"ticker":"SOLUSDT","action":"sell","direction":"long"}`,
		CodeContradiction},
	{"TradingView: action holds the comment of the order", `{"ticker":"SOLUSDT","action":"TP1 hit","market_position":"flat"}`,
		"close SOLUSDT, by position flat; kept: action"},
	{"TradingView: price alert, sentence of the dialog", `BTCUSD Crossing 67,000.00`, CodeNotAlert},
	{"TradingView: example of the help page", `NASDAQ:AAPL, price = 201.7, volume = 1800`, CodeMissingAction},
	{"TradingView: example of the help page with a word", `buy NASDAQ:AAPL, price = 201.7, volume = 1800`,
		"open long AAPL, price 201.7; kept: volume"},
	{"TradingView: action and ticker", `buy BTCUSDT`, "open long BTCUSDT"},
	{"TradingView: default message of order fills",
		`MA cross (9, 21): order buy @ 0.5 filled on BTCUSD. New strategy position is 0.5`,
		CodeNotAlert},
	{"TradingView: strategy placeholder in an alert of an indicator", `{"ticker":"BTCUSD","action":"{{strategy.order.action}}"}`,
		CodePlaceholder},
	{"TradingView: number that is not there", `{"ticker":"BTCUSD","action":"buy","sl":NaN}`, CodeMalformed},
	{"TradingView: quoted number that is not there", `{"ticker":"BTCUSD","action":"buy","sl":"NaN"}`, CodeInvalidValue},
	{"TradingView: delayed data", `{"asset":"NYMEX_DL:NG1!","action":"buy"}`, "open long NG1!"},

	// Relays for brokers and exchanges.
	{"TradersPost: minimum", `{"ticker":"AMD","action":"buy"}`, "open long AMD"},
	{"TradersPost: sentiment", `{"ticker":"TSLA","action":"sell","sentiment":"flat","price":"240.5","quantity":"3"}`,
		"close TSLA, by position flat, price 240.5; kept: quantity"},
	{"TradersPost: bullish", `{"ticker":"TSLA","action":"buy","sentiment":"bullish"}`, "open long TSLA, by position long"},
	{"TradersPost: levels",
		`{"ticker":"AMD","action":"buy","signalPrice":143.1,"takeProfit":{"percent":10},"stopLoss":{"type":"stop","percent":5}}`,
		"open long AMD, stop 5%, target 10%, price 143.1"},
	{"TradersPost: levels as prices",
		`{"ticker":"AMD","action":"buy","takeProfit":{"limitPrice":160},"stopLoss":{"type":"stop","stopPrice":130}}`,
		"open long AMD, stop 130, target 160"},
	{"TradersPost: trailing stop", `{"ticker":"AMD","action":"buy","stopLoss":{"type":"trailing_stop","trailPercent":0.75}}`,
		CodeInvalidValue},
	{"TradersPost: exit", `{"ticker":"AMD","action":"exit"}`, "close AMD"},
	{"TradersPost: cancel", `{"ticker":"AMD","action":"cancel"}`, CodeUnknownAction},
	{"TradersPost: cancel, with a position", `{"ticker":"AMD","action":"cancel","sentiment":"long"}`, CodeUnknownAction},
	{"TradersPost: add", `{"ticker":"AMD","action":"add","quantity":1}`, CodeUnknownAction},
	{"3Commas: signal bot, strategy", `{"secret":"x1","max_lag":"300","timestamp":"2026-03-02T15:00:00Z","trigger_price":"67000",
		"tv_exchange":"BINANCE","tv_instrument":"BTCUSDT.P","action":"sell","bot_uuid":"b1",
		"strategy_info":{"market_position":"flat",
		"market_position_size":"0","prev_market_position":"long","prev_market_position_size":"1"},
		"order":{"amount":"1","currency_type":"base"}}`,
		"close BTCUSDT, by position flat, price 67000; kept: bot_uuid, max_lag, order, strategy_info.market_position_size, " +
			"strategy_info.prev_market_position_size, timestamp, tv_exchange; dropped: secret"},
	{"3Commas: signal bot, custom", `{"secret":"x1","max_lag":"300","trigger_price":"67000","tv_exchange":"BINANCE",
		"tv_instrument":"BTCUSDT","action":"exit_short","bot_uuid":"b1"}`,
		"close short BTCUSDT, price 67000; kept: bot_uuid, max_lag, tv_exchange; dropped: secret"},
	{"3Commas: signal bot, levels of its own",
		`{"tv_instrument":"BTCUSDT","action":"enter_long","stop_loss":{"enabled":true,"trigger_price_percent":2}}`,
		CodeInvalidValue},
	{"3Commas: DCA bot, quote before base",
		`{"message_type":"bot_signal","action":"enter_long","pair":"USDT_BTC","email_token":"x2"}`,
		"open long BTCUSDT; kept: message_type; dropped: email_token"},
	{"OKX: signal bot, strategy",
		`{"id":"L","action":"buy","marketPosition":"long","prevMarketPosition":"flat","instrument":"BTC-USDT-SWAP",
		"signalToken":"x3","timestamp":"2026-03-02T15:00:00Z","maxLag":"60","investmentType":"base","amount":"1"}`,
		"open long BTCUSDT, by position long; kept: amount, id, investmentType, maxLag, timestamp; dropped: signalToken"},
	{"OKX: signal bot, any source", `{"action":"EXIT_LONG","instrument":"ETHUSDT.P","signalToken":"x3","maxLag":"60"}`,
		"close long ETHUSDT; kept: maxLag; dropped: signalToken"},
	{"OKX: signal bot, partial exit", `{"action":"EXIT_LONG","instrument":"ETHUSDT.P","amount":"50%"}`, CodeNotRepresented},
	{"OKX: signal bot, partial exit in percent of the position",
		`{"action":"EXIT_LONG","instrument":"ETHUSDT.P","investmentType":"percentage_position","amount":"50"}`,
		CodeNotRepresented},
	{"OKX: signal bot, full exit in percent of the position",
		`{"action":"EXIT_LONG","instrument":"ETHUSDT.P","investmentType":"percentage_position","amount":"100"}`,
		"close long ETHUSDT; kept: amount, investmentType"},
	{"3Commas: signal bot, partial exit",
		`{"tv_instrument":"BTCUSDT","action":"exit_long","order":{"amount":"50","currency_type":"position_percent"}}`,
		CodeNotRepresented},
	{"WunderTrading: comment as a word", `ENTER-LONG ETHUSDT`, "open long ETHUSDT"},
	{"WunderTrading: JSON", `{"code":"EXIT-ALL","pair":"ETHUSDT"}`, CodeMissingAction},
	{"WunderTrading: JSON with an action", `{"action":"EXIT-ALL","pair":"ETHUSDT"}`, "close ETHUSDT"},
	{"Bybit",
		`{"symbol":"BTCUSDT","side":"Buy","qty":"0.01","price":"67000","trigger_time":"2026-03-02T15:00:00Z","max_lag":"20"}`,
		"open long BTCUSDT, price 67000; kept: max_lag, qty, trigger_time"},
	{"Finandy",
		`{"name":"hook","secret":"x4","side":"buy","symbol":"ETHUSDT"}`, "open long ETHUSDT; kept: name; dropped: secret"},
	{"SignalStack", `{"symbol":"AAPL","action":"sell_short","quantity":5}`, "open short AAPL; kept: quantity"},
	{"SignalStack: cover", `{"symbol":"AAPL","action":"buy_to_cover","quantity":5}`, "close short AAPL; kept: quantity"},
	{"AlgoWay: flat", `{"platform_name":"metatrader5","ticker":"XAUUSD","order_contracts":1,"order_action":"flat"}`,
		"close XAUUSD; kept: order_contracts, platform_name"},
	{"SignalBee", `{"webhook_secret":"x5","side":"close","symbol":"btcusdt","quantity_type":"fixed","quantity":"0.1"}`,
		"close BTCUSDT; kept: quantity, quantity_type; dropped: webhook_secret"},
	{"TradingView alerts processor", `{"stub":"main","direction":"short","symbol":"ETH-PERP","size":"50","mode":"reverse"}`,
		"open short ETH; kept: mode, size, stub"},
	{"TradingView alerts processor: partial close", `{"stub":"main","direction":"close","symbol":"ETH-PERP","size":"50%"}`,
		CodeNotRepresented},
	{"GMX connector",
		`{"exchange":"gmx","strategy":"swings","market":"SOL_USD","order":"buy","position":"long",
		"price":"155","pair":"SOL_USD"}`,
		"open long SOLUSD, by position long, strategy swings, price 155; kept: exchange, market"},
	{"Altrady: open", `{"api_key":"x6","api_secret":"x7","action":"open","side":"long","symbol":"BTCUSDT"}`,
		"open long BTCUSDT; dropped: api_key, api_secret"},
	{"Altrady: close", `{"action":"close","side":"long","symbol":"BTCUSDT"}`, "close long BTCUSDT"},
	{"Altrady: reverse", `{"action":"reverse","side":"long","symbol":"BTCUSDT"}`, CodeUnknownAction},
	{"hedge mode: closed by the side of the order", `{"action":"close","side":"buy","symbol":"BTCUSDT"}`, CodeContradiction},
	{"MetaApi CopyFactory",
		`{"symbol":"EURUSD","type":"POSITION_TYPE_BUY","time":"2026-03-02T15:00:00Z","volume":0.01,"stopLoss":1.08,
		"takeProfit":1.1}`,
		"open long EURUSD, stop 1.08, target 1.1; kept: time, volume"},
	{"MetaApi CopyFactory: pending order",
		`{"symbol":"EURUSD","type":"ORDER_TYPE_BUY_LIMIT","openPrice":1.07}`, CodeMissingAction},
	{"Freqtrade: entry", `{"type":"entry","pair":"BTC/USDT:USDT","direction":"Long","open_rate":67000}`,
		"open long BTCUSDT; kept: open_rate"},
	{"Freqtrade: exit, whose direction is that of the trade", `{"type":"exit","pair":"BTC/USDT:USDT","direction":"Long"}`,
		"close long BTCUSDT"},
	{"Freqtrade: cancelled exit", `{"type":"exit_cancel","pair":"BTC/USDT:USDT","direction":"Long"}`, CodeUnknownAction},
	{"Hummingbot",
		`{"topic":"hbot/events","type":"external_event","data":{"symbol":"BTCUSDT","position":"long"}}`, CodeMissingAsset},
	{"JSON with levels of an indicator",
		`{"type":"LONG_ENTRY","symbol":"BTCUSD","tf":"15","entry":"67000","sl":"66000","tp1":"68000","tp2":"69000"}`,
		CodeNotRepresented},
	{"JSON with several targets and the one that is meant",
		`{"type":"LONG_ENTRY","symbol":"BTCUSD","sl":"66000","target":"68000","tp2":"69000"}`,
		"open long BTCUSD, stop 66000, target 68000; kept: tp2"},
	{"JSON with points", `{"action":"buy","symbol":"NAS100","stop_loss_points":15,"take_profit_points":15}`, CodeNotRepresented},
	{"JSON with percentages by name", `{"action":"buy","symbol":"BTCUSD","sl_pct":1,"tp_pct":"2.5"}`,
		"open long BTCUSD, stop 1%, target 2.5%"},
	{"JSON without a trailing stop", `{"action":"buy","symbol":"BTCUSD","trailing_stop":false}`,
		"open long BTCUSD; kept: trailing_stop"},
	{"JSON with flags", `{"ticker":"BTC","buy":true,"sell":false}`, CodeMissingAction},
	{"JSON with charts' zeros", `{"ticker":"BTC","action":"buy","sl":0,"tp":"0.00","price":""}`, "open long BTC"},

	// Relays for terminals: key=value, or a licence and words.
	{"CrossTrade: place",
		"key=x8;\ncommand=PLACE;\naccount=sim;\ninstrument=ES1!;\naction=BUY;\nqty=1;\norder_type=MARKET;\ntif=DAY;",
		"open long ES1!; kept: account, command, order_type, qty, tif; dropped: key"},
	{"CrossTrade: with the position",
		"key=x8; command=PLACE; instrument=ES1!; action=sell; qty=1; market_position=flat; prev_market_position=long;",
		"close ES1!, by position flat; kept: command, qty; dropped: key"},
	{"CrossTrade: close", "key=x8; command=CLOSEPOSITION; account=sim; instrument=ES1!;",
		"close ES1!; kept: account; dropped: key"},
	{"CrossTrade: orders are cancelled", "key=x8; command=CANCELORDERS; instrument=ES1!;", CodeUnknownAction},
	{"PineConnector: market order", "60000000001,buy,EURUSD,risk=0.01", "open long EURUSD; kept: risk; dropped: licence"},
	{"PineConnector: a bare stop is a setting", "60000000001,sell,GBPJPY,sl=50,risk=1", CodeNotRepresented},
	{"PineConnector: pips by name", "60000000001,sell,GBPJPY,vol_dollar=50,sl_pips=20", CodeNotRepresented},
	{"PineConnector: percentages by name", "60000000001, bull, GBPUSD, sl_pct=0.5, tp_pct=1, secret=x9",
		"open long GBPUSD, stop 0.5%, target 1%; dropped: licence, secret"},
	{"PineConnector: close", "60000000001,closelong,GBPUSD", "close long GBPUSD; dropped: licence"},
	{"PineConnector: pending order", "60000000001,buystop,EURUSD,price=1.1,risk=1", CodeUnknownAction},
	{"TradeSgnl", "60000000001,EURUSD,sell,risk=0.01", "open short EURUSD; kept: risk; dropped: licence"},
	{"TradingView.to", "buy BTCUSDT q=20% sl=2% tp=3%", "open long BTCUSDT, stop 2%, target 3%; kept: q"},
	{"TradingView.to: partial close", "close BTCUSDT q=50%", CodeNotRepresented},
	{"password before the line", "x10\nlong BTCUSD q=0.1 sl=1000", CodeNotAlert},
	{"Autoview", "e=bybit s=BTCUSDT b=long q=5% t=market", CodeNotAlert},
	{"Autoview: close", "c=position b=short t=market", CodeNotAlert},
	{"ProfitView: several commands", "c=order t=open\nc=position b=short t=market\nb=long l=10 q=50%", CodeDuplicate},
	{"Alertatron", "MyKeys(XBTUSD) { market(side=buy, amount=100); } #bot", CodeNotAlert},
	{"LinkMyTrading", "MAIN(BTCUSDT){\ntype=market,side=buy,amount=0.001\n}", CodeNotAlert},
	{"callout of a chat", "LONG BTC @ 67000 x10 SL 66000 TP 68000, 69000", CodeNotAlert},
	{"Cornix: channel text",
		"#BTC/USDT\nEntry Targets: 67000\nTake-Profit Targets: 68000, 69000\nStop Targets: 66000", CodeNotAlert},
	{"Cornix: symbol with a hash",
		"long #BTC/USDT stop: 66000 take-profit: 68000", "open long BTCUSDT, stop 66000, target 68000"},

	// Other chart programs.
	{"TrendSpider", `{"ticker":"AAPL","order_action":"buy","price":"201.7","comment":"TS:cross"}`,
		"open long AAPL, price 201.7; kept: comment"},
	{"TrendSpider: placeholder", `{"ticker":"%alert_symbol%","order_action":"buy"}`, CodePlaceholder},
	{"Hyperliquid bot", `{"action":"sell","symbol":"BTC","strategy":"{{strategy.name}}"}`, CodePlaceholder},
	{"text before JSON", `Alert: {"ticker":"BTC","action":"buy"}`, CodeNotAlert},
	{"an array", `[{"ticker":"BTC","action":"buy"}]`, CodeMalformed},
}

func TestShapes(t *testing.T) {
	t.Parallel()
	if len(shapes) < 60 {
		t.Errorf("%d shapes", len(shapes))
	}
	for _, c := range shapes {
		if got := understood(c.body); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// understood returns Alert.String, or the code of the error.
func understood(body string) string {
	a, err := Parse([]byte(body))
	if err != nil {
		return signal.CodeOf(err)
	}
	return a.String()
}

// TestSentences pins what errors say: what to change, and what would have been understood.
func TestSentences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, code, want string }{
		{"misspelt action",
			`{"asset":"BTC","action":"byu"}`, CodeUnknownAction, `action "byu" is not understood: did you mean buy?`},
		{"misspelt word", "byu BTCUSD", CodeUnknownAction, `"byu" is not understood: did you mean buy?`},
		{"misspelt name", `{"ticker":"BTC","aciton":"buy"}`, CodeMissingAction, `("aciton": did you mean action?)`},
		{"a sentence", "Price crossed up", CodeNotAlert,
			`"Price crossed up" is a sentence, not an alert: write an action, an asset and the rest as name=value, ` +
				`such as "long BTCUSD sl=1.5% tp=3%"`},
		{"an asset alone", "AAPL", CodeMissingAction, `or write a line such as "long AAPL sl=1.5% tp=3%"`},
		{"an action alone", "buy", CodeMissingAsset, `add "ticker": "{{ticker}}"`},
		{"an action as a position",
			`{"ticker":"BTC","position":"buy"}`, CodeUnknownAction, `position "buy" is no position: write long, short or flat`},
		{"a pending order", `{"ticker":"BTC","action":"buy_limit"}`, CodeUnknownAction, "opens a signal at the market's price"},
		{"a strategy's placeholder", `{"ticker":"BTC","action":"{{strategy.order.action}}"}`, CodePlaceholder,
			"{{strategy.order.action}} was not filled in: TradingView does that only in alerts of a strategy"},
		{"a plot", `{"ticker":"BTC","action":"buy","sl":{{plot_1}}}`, CodePlaceholder, "{{plot_1}} was not filled in"},
		{"a common placeholder", "buy {{ticker}}", CodePlaceholder, "{{ticker}} was not filled in: the alert was not sent by"},
		{"a misspelt placeholder", "buy {{tickr}}", CodePlaceholder, "did you mean {{ticker}}?"},
		{"an invented placeholder", "buy BTC note={{foo bar}}", CodePlaceholder, "it is no placeholder of TradingView"},
		{"a decimal comma", `{"ticker":"BTC","action":"buy","sl":"12,5"}`, CodeInvalidValue, `sl "12,5" has a comma`},
		{"a decimal comma on a line", "buy BTC sl=12,5", CodeInvalidValue, "such as 12.5"},
		{"a huge price", `{"ticker":"BTC","action":"buy","price":1e400}`, CodeInvalidValue, `price "1e400" must be`},
		{"a huge parameter",
			`{"ticker":"BTC","action":"buy","x":{"y":[1e400]}}`, CodeInvalidValue, "x.y has a number that is too large"},
		{"not a number", "buy BTC sl=NaN", CodeInvalidValue,
			`sl "NaN" must be a price such as 95.5, or a distance such as 1.5% or 2atr`},
		{"infinity", "buy BTC sl=Infinity", CodeInvalidValue, "Infinity"},
		{"hexadecimal", "buy BTC sl=0x10", CodeInvalidValue, "0x10"},
		{"a negative stop", "buy BTC sl=-2%", CodeInvalidValue, "not negative"},
		{"a stop in R", "buy BTC sl=2R", CodeInvalidValue, `sl "2R" must be`},
		{"two stops",
			`{"ticker":"BTC","action":"buy","sl":1,"stop":2}`, CodeContradiction, `sl "1" and stop "2" differ: keep one of them`},
		{"two assets",
			`{"ticker":"BTC","symbol":"ETH","action":"buy"}`, CodeContradiction, `ticker "BTC" and symbol "ETH" differ`},
		{"two actions", `{"ticker":"BTC","action":"buy","side":"short"}`, CodeContradiction,
			`action "buy" and side "short" contradict each other: keep one of them`},
		{"two positions",
			`{"ticker":"BTC","position":"long","sentiment":"bearish"}`,
			CodeContradiction, `position "long" and sentiment "bearish"`},
		{"an exit that leaves the position", `{"ticker":"BTC","action":"close","position":"long"}`, CodeContradiction,
			`position "long" and action "close" contradict`},
		{"an exit without its direction", `{"ticker":"BTC","action":"exit","side":"sell"}`, CodeContradiction, "write exit_long"},
		{"an entry without its direction",
			`{"ticker":"BTC","action":"open"}`, CodeMissingAction, "write enter_long or enter_short"},
		{"an interval of ticks",
			`{"ticker":"BTC","action":"buy","interval":"100T"}`, CodeInvalidValue, `interval "100T" is no interval`},
		{"a confidence above 1", `{"ticker":"BTC","action":"buy","confidence":62}`, CodeInvalidValue, "percentage such as 70%"},
		{"a list as a price level",
			`{"ticker":"BTC","action":"buy","tp":[1,2]}`, CodeInvalidValue, `tp must be one of {"price": 95.5}`},
		{"two units of a level", `{"ticker":"BTC","action":"buy","tp":{"price":1,"r":2}}`, CodeInvalidValue, "tp must be one of"},
		{"an object as an asset", `{"ticker":{"a":"BTC"},"action":"buy"}`, CodeInvalidValue, "ticker must be a text or a number"},
		{"a member given twice", `{"ticker":"BTC","ticker":"BTC","action":"buy"}`, CodeDuplicate, `"ticker" is given twice`},
		{"an inner member given twice",
			`{"ticker":"BTC","action":"buy","x":{"y":1,"\u0079":2}}`, CodeDuplicate, `"y" is given twice in x`},
		{"a group given twice", `{"ticker":"BTC","strategy":{"order_action":"buy"},"strategy":{}}`, CodeDuplicate,
			`"strategy" is given twice`},
		{"a name given twice", "buy BTC sl=1 sl=1", CodeDuplicate, `"sl" is given twice`},
		{"nothing filled in", `{"ticker":"BTC","action":"buy","price":}`, CodeMalformed, "put placeholders of numbers in quotes"},
		{"a comma too many", `{"ticker":"BTC",}`, CodeMalformed, `expected a member name at byte 16, before "}"`},
		{"typographic quotes", "{“ticker”:“BTC”}", CodeMalformed, "replace the typographic quotes"},
		{"cut off", `{"ticker":"BTC"`, CodeMalformed, "unexpected end at byte 15"},
		{"deep", strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), CodeMalformed, "nested more than 32 levels deep"},
		{"empty", " \r\n", CodeMalformed, "the alert is empty"},
		{"not UTF-8", "buy BTC\xff", CodeMalformed, "UTF-8"},
		{"long", strings.Repeat("x", MaxBytes+1), CodeTooLong, "at most 16384 bytes"},
		{"long asset", "buy " + strings.Repeat("x", 65), CodeInvalidValue, "at most 64 characters"},
		{"control characters", `{"ticker":"BTC\n","symbol":"B\u0007TC","action":"buy"}`, CodeInvalidValue,
			"no control characters"},
		{"long parameters",
			`{"ticker":"BTC","action":"buy","note":"` + strings.Repeat("x", MaxParameters) + `"}`, CodeTooLong, `such as "note"`},
	} {
		_, err := Parse([]byte(c.body))
		if code := signal.CodeOf(err); code != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %s %v\nwant %s %s", c.name, code, err, c.code, c.want)
		}
	}
}

func TestParseLevel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"stop", "65000", "65000"},
		{"--stop", " 1.5 %", "1.5%"},
		{"--stop", "2 ATR", "2 ATR"},
		{"target", "2R", "2R"},
		{"target", "2atr", "2 ATR"},
		{"--stop", "2R", `--stop "2R" must be a price such as 95.5, or a distance such as 1.5% or 2atr, finite and not negative`},
		{"--stop", "-1%", "not negative"},
		{"target", "0R", `target "0R" must be above 0`},
		{"target", "%", `target "%" must be above 0`},
		{"target", "", "target \"\" must be above 0"},
	} {
		level, err := ParseLevel(c.name, c.text)
		if got := level.String(); err == nil && got != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: got %s, %v, want %s", c.name, c.text, got, err, c.want)
		}
	}
}

// FuzzParseLevel: what a level is written as is read as the same level.
func FuzzParseLevel(f *testing.F) {
	for _, seed := range []string{"65000", "1.5%", "2R", "2 ATR", "0", "", "1e400", "-0atr"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		level, err := ParseLevel("target", text)
		if (err == nil) != (level.Value > 0 && !math.IsInf(level.Value, 0)) {
			t.Errorf("%q: %v, %v", text, level, err)
		}
		if again, err2 := ParseLevel("target", level.String()); err == nil && (err2 != nil || again != level) {
			t.Errorf("%q: %v, %v, %v", text, level, again, err2)
		}
	})
}

func TestParametersAreCanonical(t *testing.T) {
	t.Parallel()
	a, err := Parse([]byte("\ufeff" + `{"z": 1.50, "id": "L", "ticker": "BTC", "action": "buy",
		"a": {"d": [1, "é\u00e9", {"token": "x"}], "c": null}, "close": 2, "price": 1, "order_id": "<L>"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":{"c":null,"d":[1,"éé",{}]},"close":2,"id":"L","order_id":"<L>","z":1.50}`
	if got := string(a.Parameters); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if d := gocmp.Diff([]string{"a.d.token"}, a.Dropped); d != "" || a.Price != 1 {
		t.Errorf("price %g, dropped (-want +got):\n%s", a.Price, d)
	}
}

func TestAbsentValues(t *testing.T) {
	t.Parallel()
	a, err := Parse([]byte(`{"ticker":"BTC","action":"buy","stop":null,"target":{"price":0},"price":-0,"close":"7","strategy":"",
		"interval":null,"confidence":0,"tp_pips":"0","position":""}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Alert{Asset: "BTC", Symbol: "BTC", Action: OpenLong, Price: 7, Confidence: new(0.0),
		Parameters: json.RawMessage(`{"tp_pips":"0"}`)}
	if d := gocmp.Diff(want, a); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		strategies []string
		position   string
		want       string
	}{
		{nil, "long", "open long BTCUSDT, by position long, price 67000.5, interval 15 (re-scored on 5m); kept: order_id"},
		{[]string{"momentum", "other"}, "flat", "close BTCUSDT, by position flat, strategy momentum, price 67000.5, " +
			"interval 15 (re-scored on 5m); kept: order_id"},
	} {
		if got := understood(filled(c.strategies, c.position)); got != c.want {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
		if got := understood(Template(c.strategies)); got != CodePlaceholder {
			t.Errorf("the template itself is %s", got)
		}
	}
}

// filled returns the template as TradingView fills it in.
func filled(strategies []string, position string) string {
	return strings.NewReplacer("{{exchange}}", "BINANCE", "{{ticker}}", "BTCUSDT.P", "{{strategy.market_position}}", position,
		"{{close}}", "67000.5", "{{interval}}", "15", "{{strategy.order.id}}", "L").Replace(Template(strategies))
}

func ExampleTemplate() {
	fmt.Println(Template([]string{"momentum"}))
	// Output:
	// {
	//   "strategy": "momentum",
	//   "asset": "{{exchange}}:{{ticker}}",
	//   "position": "{{strategy.market_position}}",
	//   "price": "{{close}}",
	//   "interval": "{{interval}}",
	//   "order_id": "{{strategy.order.id}}"
	// }
}

func ExampleParse() {
	a, err := Parse([]byte("long BINANCE:BTCUSDT.P sl=1.5% tp=2R interval=4h"))
	fmt.Println(a.String(), err)
	_, err = Parse([]byte("lnog BTCUSD"))
	fmt.Println(err)
	// Output:
	// open long BTCUSDT, stop 1.5%, target 2R, interval 4h (re-scored on 1h) <nil>
	// "lnog" is not understood: did you mean long?
}

// FuzzParse tests what holds for every body.
func FuzzParse(f *testing.F) {
	for _, s := range shapes {
		f.Add([]byte(s.body))
	}
	f.Add([]byte(Template([]string{"momentum"})))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := Parse(body)
		again, errAgain := Parse(body)
		if d := gocmp.Diff(a, again); d != "" || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("%q is read in two ways: %v, %v\n%s", body, err, errAgain, d)
		}
		if err != nil {
			e, ok := errors.AsType[*signal.Error](err)
			if !ok || e.Kind != signal.KindInvalid || e.Code == "" || e.Message == "" {
				t.Fatalf("%q: %#v", body, err)
			}
			return
		}
		check(t, &a)
	})
}

// check tests what the documentation of Alert promises.
func check(t *testing.T, a *Alert) {
	t.Helper()
	actions := map[Position][]Action{"": {OpenLong, OpenShort, Close, CloseLong, CloseShort},
		Long: {OpenLong}, Short: {OpenShort}, Flat: {Close}}
	if a.Asset == "" || a.Symbol != Symbol(a.Asset) || a.Symbol == "" || !slices.Contains(actions[a.Position], a.Action) {
		t.Fatalf("asset %q, symbol %q, position %q, action %q", a.Asset, a.Symbol, a.Position, a.Action)
	}
	for _, l := range []signal.Level{a.Stop, a.Target, {Unit: signal.PriceLevel, Value: cmp.Or(a.Price, 1)}} {
		positive := l.Value > 0 && !math.IsInf(l.Value, 0) && slices.Contains([]signal.LevelUnit{signal.PriceLevel,
			signal.PercentLevel, signal.ATRLevel, signal.RLevel}, l.Unit)
		if l != (signal.Level{}) && !positive {
			t.Fatalf("level %+v", l)
		}
	}
	if a.Stop.Unit == signal.RLevel || a.Confidence != nil && !(0 <= *a.Confidence && *a.Confidence <= 1) {
		t.Fatalf("stop %v, confidence %v", a.Stop, a.Confidence)
	}
	if a.Parameters != nil && (len(a.Parameters) > MaxParameters || !json.Valid(a.Parameters) || a.Parameters[0] != '{') {
		t.Fatalf("parameters of %d bytes: %s", len(a.Parameters), a.Parameters)
	}
	if (a.Interval == "") != (a.Bar == 0) || a.Bar > maxBar || (a.Bar == 0) != (a.Timeframe == "") {
		t.Fatalf("interval %q, %v, %q", a.Interval, a.Bar, a.Timeframe)
	}
	texts := a.Asset + a.Strategy + a.Reference + a.Interval
	if strings.ContainsFunc(texts, unicode.IsControl) || !utf8.ValidString(a.String()) {
		t.Fatalf("%q", a.String())
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range []struct{ name, body string }{
		{"line", "long BTCUSD sl=1.5% tp=3%"},
		{"object", filled(nil, "long")},
		{"sentence", "Price crossed up"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Parse([]byte(c.body))
			}
		})
	}
}
