package market

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// exchange is a server that speaks as Binance does: bars by REST, trades and bars by
// WebSocket. Its prices follow one rule, so that a test knows what they must be.
type exchange struct {
	*httptest.Server
	now func() time.Time

	mu      sync.Mutex
	symbols map[string]bool
	sockets map[*websocket.Conn]map[string]bool // and what is subscribed
	answer  func(w http.ResponseWriter, r *http.Request) bool
	mute    bool // sockets are taken, and nothing is said
	refuse  bool // no socket is taken
	asked   int  // for bars
}

func newExchange(t *testing.T, now func() time.Time, symbols ...string) *exchange {
	t.Helper()
	x := &exchange{now: now, symbols: make(map[string]bool), sockets: make(map[*websocket.Conn]map[string]bool)}
	for _, s := range symbols {
		x.symbols[s] = true
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v3/klines", x.klines)
	mux.HandleFunc("GET /api/v3/time", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"serverTime":%d}`, now().UnixMilli())
	})
	mux.HandleFunc("GET /stream", x.stream)
	x.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		x.cut()
		x.Server.CloseClientConnections()
		x.Server.Close()
	})
	return x
}

func (x *exchange) options() RealOptions {
	return RealOptions{BinanceURL: x.URL, BinanceStreamURL: "ws" + strings.TrimPrefix(x.URL, "http")}
}

// priceAt is the price in the minute that begins at ms.
func priceAt(ms int64) float64 { return 60_000 + float64(ms/60_000%1000) }

// set has every request for bars answered by f while that returns true.
func (x *exchange) set(f func(w http.ResponseWriter, r *http.Request) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answer = f
}

func (x *exchange) klines(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	answer, known := x.answer, x.symbols[r.FormValue("symbol")]
	x.asked++
	x.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	if !known {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"code":-1121,"msg":"Invalid symbol."}`)
		return
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(r.FormValue(name), 10, 64)
		return n
	}
	frame, _ := frameOf(signal.Timeframe(r.FormValue("interval")))
	step := frameMS[frame]
	from, to, limit := number("startTime"), min(number("endTime"), x.now().UnixMilli()), number("limit")
	rows := []any{}
	for open := (from + step - 1) / step * step; open <= to && int64(len(rows)) < limit; open += step {
		rows = append(rows, kline(open, step))
	}
	json.NewEncoder(w).Encode(rows)
}

func kline(open, step int64) []any {
	first, last := priceAt(open), priceAt(open+step-60_000)
	low, high := min(first, last)-5, max(first, last)+5
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', 8, 64) }
	return []any{open, text(first), text(high), text(low), text(last), "12.5", open + step - 1, "1.0", 100, "1.0", "1.0", "0"}
}

func (x *exchange) stream(w http.ResponseWriter, r *http.Request) {
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
		if !x.mute {
			for _, p := range m.Params {
				x.sockets[ws][p] = m.Method == "SUBSCRIBE"
			}
			ws.WriteJSON(map[string]any{"result": nil, "id": m.ID})
		}
		x.mu.Unlock()
	}
}

// say sends a message to all who follow a stream, and returns how many those are.
func (x *exchange) say(stream string, data any) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for ws, streams := range x.sockets {
		if streams[stream] {
			ws.WriteJSON(map[string]any{"stream": stream, "data": data})
			n++
		}
	}
	return n
}

func (x *exchange) trade(symbol string, price float64, ms int64) int {
	return x.say(strings.ToLower(symbol)+"@trade", map[string]any{"e": "trade", "E": ms, "s": symbol, "t": 12345,
		"p": strconv.FormatFloat(price, 'f', 8, 64), "q": "0.100", "T": ms, "m": true, "M": true})
}

func (x *exchange) close1m(symbol string, open int64) int {
	k := kline(open, 60_000)
	return x.say(strings.ToLower(symbol)+"@kline_1m", map[string]any{"e": "kline", "E": open + 60_000, "s": symbol, "k": map[string]any{
		"t": open, "T": open + 59_999, "s": symbol, "i": "1m", "f": 100, "L": 200, "o": k[1], "c": k[4], "h": k[2], "l": k[3], "v": k[5],
		"n": 100, "x": true, "q": "1", "V": "500", "Q": "0.5", "B": "123456"}})
}

// cut ends all sockets without a word.
func (x *exchange) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for ws := range x.sockets {
		ws.UnderlyingConn().Close()
	}
}

// followers says how many sockets follow a stream.
func (x *exchange) followers(stream string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for _, streams := range x.sockets {
		if streams[stream] {
			n++
		}
	}
	return n
}
