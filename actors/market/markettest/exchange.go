// Package markettest provides fixtures for tests of markets: a server that behaves like real
// sources, a clock, and Refs of actors.
package markettest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const minute = 60_000 // milliseconds

// PriceAt is the default price of an Exchange in the minute around a time in milliseconds.
func PriceAt(ms int64) float64 { return 60_000 + float64(ms/minute%1000) }

// Exchange is a server that behaves like Binance, with bars by REST and trades and bars by
// WebSocket, and like Coinbase, with candles. Its prices are a function of time, which a test knows.
type Exchange struct {
	*httptest.Server
	now func() time.Time

	mu      sync.Mutex
	symbols map[string]bool
	price   func(ms int64) float64
	sockets map[*websocket.Conn]map[string]bool // their subscriptions
	answer  http.HandlerFunc
	refuse  bool // sockets are refused
	asked   int
}

// New starts an exchange with Binance symbols on a clock. It ends with the test.
func New(tb testing.TB, now func() time.Time, symbols ...string) *Exchange {
	tb.Helper()
	x := &Exchange{now: now, price: PriceAt, symbols: make(map[string]bool)}
	x.sockets = make(map[*websocket.Conn]map[string]bool)
	for _, s := range symbols {
		x.symbols[s] = true
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v3/klines", x.bars(x.klines))
	mux.HandleFunc("GET /products/{product}/candles", x.bars(x.candles))
	mux.HandleFunc("GET /api/v3/ticker/price", func(w http.ResponseWriter, _ *http.Request) {
		x.list(w, func(symbol string) any { return map[string]string{"symbol": symbol, "price": "1.00000000"} })
	})
	mux.HandleFunc("GET /products", func(w http.ResponseWriter, _ *http.Request) {
		x.list(w, func(symbol string) any {
			return map[string]string{"id": strings.TrimSuffix(symbol, "USDT") + "-USD", "status": "online"}
		})
	})
	mux.HandleFunc("GET /stream", x.stream)
	x.Server = httptest.NewServer(mux)
	tb.Cleanup(func() {
		x.Cut()
		x.Server.CloseClientConnections()
		x.Server.Close()
	})
	return x
}

// StreamURL returns the URL of its WebSocket.
func (x *Exchange) StreamURL() string { return "ws" + strings.TrimPrefix(x.URL, "http") }

// list answers with a row for each symbol.
func (x *Exchange) list(w http.ResponseWriter, row func(symbol string) any) {
	x.mu.Lock()
	rows := []any{}
	for symbol := range x.symbols {
		rows = append(rows, row(symbol))
	}
	x.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(rows)
}

// Answer makes f answer all requests for bars. nil restores the default.
func (x *Exchange) Answer(f http.HandlerFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answer = f
}

// Price replaces the function of prices.
func (x *Exchange) Price(f func(ms int64) float64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.price = f
}

// Asked returns the number of requests for bars.
func (x *Exchange) Asked() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asked
}

func (x *Exchange) bars(rows http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x.mu.Lock()
		answer := x.answer
		x.asked++
		x.mu.Unlock()
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		if answer == nil {
			answer = rows
		}
		answer(w, r)
	}
}

func (x *Exchange) bar(open, step int64) (o, h, l, c float64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	o, c = x.price(open), x.price(open+step-minute)
	return o, max(o, c) + 5, min(o, c) - 5, c
}

// volume is the volume of every bar.
const volume = 12.5

func (x *Exchange) klines(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	known := x.symbols[r.FormValue("symbol")]
	x.mu.Unlock()
	if !known {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"code":-1121,"msg":"Invalid symbol."}`)
		return
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(r.FormValue(name), 10, 64)
		return n
	}
	step := signal.Timeframe(r.FormValue("interval")).Duration().Milliseconds()
	from, to, limit := number("startTime"), min(number("endTime"), x.now().UnixMilli()), number("limit")
	rows := []any{}
	for open := (from + step - 1) / step * step; open <= to && int64(len(rows)) < limit; open += step {
		o, h, l, c := x.bar(open, step)
		rows = append(rows, []any{open, text(o), text(h), text(l), text(c), text(volume), open + step - 1})
	}
	json.NewEncoder(w).Encode(rows)
}

func text(v float64) string { return strconv.FormatFloat(v, 'f', 8, 64) }

// candles answers with the newest candles first.
func (x *Exchange) candles(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("product") != "BTC-USD" {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"message":"NotFound"}`)
		return
	}
	seconds, _ := strconv.ParseInt(r.FormValue("granularity"), 10, 64)
	from, _ := time.Parse(time.RFC3339, r.FormValue("start"))
	to, _ := time.Parse(time.RFC3339, r.FormValue("end"))
	step := seconds * 1000
	rows := [][]float64{}
	for open := min(to.UnixMilli(), x.now().UnixMilli()) / step * step; open >= from.UnixMilli(); open -= step {
		o, h, l, c := x.bar(open, step)
		rows = append(rows, []float64{float64(open / 1000), l, h, o, c, volume})
	}
	json.NewEncoder(w).Encode(rows)
}

func (x *Exchange) stream(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	refuse := x.refuse
	x.mu.Unlock()
	if refuse {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	up := websocket.Upgrader{}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	x.mu.Lock()
	x.sockets[ws] = make(map[string]bool)
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		delete(x.sockets, ws)
		x.mu.Unlock()
		ws.Close()
	}()
	for {
		var m struct {
			Method string
			Params []string
			ID     int64
		}
		if err := ws.ReadJSON(&m); err != nil {
			return
		}
		x.mu.Lock()
		for _, p := range m.Params {
			x.sockets[ws][p] = m.Method == "SUBSCRIBE"
		}
		ws.WriteJSON(map[string]any{"result": nil, "id": m.ID})
		x.mu.Unlock()
	}
}

// Say sends a message to all subscribers of a stream.
func (x *Exchange) Say(stream string, data any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for ws, streams := range x.sockets {
		if streams[stream] {
			ws.WriteJSON(map[string]any{"stream": stream, "data": data})
		}
	}
}

// Trade publishes a trade.
func (x *Exchange) Trade(symbol string, price float64, ms int64) {
	x.Say(strings.ToLower(symbol)+"@trade", map[string]any{"e": "trade", "E": ms, "s": symbol, "t": 12345,
		"p": text(price), "q": "0.100", "T": ms, "m": true, "M": true})
}

// Close1m publishes the closed bar of a minute.
func (x *Exchange) Close1m(symbol string, open int64) {
	o, h, l, c := x.bar(open, minute)
	kline := map[string]any{"t": open, "T": open + minute - 1, "s": symbol, "i": "1m", "f": 100, "L": 200,
		"o": text(o), "c": text(c), "h": text(h), "l": text(l), "v": text(volume), "x": true, "V": "500"}
	event := map[string]any{"e": "kline", "E": open + minute, "s": symbol, "k": kline}
	x.Say(strings.ToLower(symbol)+"@kline_1m", event)
}

// Cut breaks off all sockets, and refuses others until Accept is called.
func (x *Exchange) Cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refuse = true
	for ws := range x.sockets {
		ws.UnderlyingConn().Close()
	}
}

// Accept accepts sockets again.
func (x *Exchange) Accept() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refuse = false
}

// Follows reports whether a socket is subscribed to the trades of a symbol.
func (x *Exchange) Follows(symbol string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, streams := range x.sockets {
		if streams[strings.ToLower(symbol)+"@trade"] {
			return true
		}
	}
	return false
}

// Serve returns the URL of a server that answers with f, by default with JSON. It ends with the test.
func Serve(tb testing.TB, f http.HandlerFunc) (url string) {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		f(w, r)
	}))
	tb.Cleanup(s.Close)
	return s.URL
}

// Unreadable is an answer without bars.
type Unreadable struct {
	Status int
	Body   string
	Kind   fetch.Kind // of the error; empty for fetch.ErrUnknown
}

// NewClient returns the method Bars of a client whose server answers with f.
type NewClient = func(t *testing.T, f http.HandlerFunc) ReadBars

// ReadBars is the method Bars of a client.
type ReadBars = func(ctx context.Context, symbol string, tf signal.Timeframe, from, to int64) ([]marketdata.Bar, error)

// CheckUnreadable checks the errors of clients for answers of their server.
func CheckUnreadable(t *testing.T, answers map[string]Unreadable, newClient NewClient) {
	t.Helper()
	for name, a := range answers {
		read := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(a.Status)
			fmt.Fprint(w, a.Body)
		})
		bars, err := read(t.Context(), "X", signal.M1, 0, 60_000)
		fault, ok := errors.AsType[*fetch.Error](err)
		if !ok && (a.Kind != "" || !errors.Is(err, fetch.ErrUnknown)) || ok && fault.Kind != a.Kind || bars != nil {
			t.Errorf("%s: %v, %v", name, bars, err)
		}
	}
}

// Request is a request for bars with the one answer that it gets.
type Request struct {
	Answer   string
	Symbol   string
	Frame    signal.Timeframe
	From, To int64
	URI      string // of the first request that is expected
	Bars     []marketdata.Bar
}

// CheckBars checks the request and the bars of a client whose server gives an answer.
func (q Request) CheckBars(t *testing.T, newClient NewClient) {
	t.Helper()
	uri := ""
	read := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		uri = r.URL.RequestURI()
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprint(w, q.Answer)
	})
	bars, err := read(t.Context(), q.Symbol, q.Frame, q.From, q.To)
	if d := cmp.Diff(q.Bars, bars); d != "" || err != nil || uri != q.URI {
		t.Errorf("%s: %v\n%s", uri, err, d)
	}
}

// CheckPages checks that a client reads n bars of 1m in three pages. page returns the answer of its
// server with the bars of a request.
func CheckPages(t *testing.T, n int, page func(r *http.Request) string, newClient NewClient) {
	t.Helper()
	pages := 0
	read := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		pages++
		fmt.Fprint(w, page(r))
	})
	bars, err := read(t.Context(), "X", signal.M1, minute, int64(n+1)*minute)
	if err != nil || len(bars) != n || pages != 3 {
		t.Fatalf("%d bars in %d pages, %v", len(bars), pages, err)
	}
	for i, b := range bars {
		if b.OpenTime != int64(i+1)*minute {
			t.Fatalf("bar %d opens at %d", i, b.OpenTime)
		}
	}
}
