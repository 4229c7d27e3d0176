package binance

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Messages and rows from the documentation of the exchange, with fields that differ only in case.
const (
	tradeText = `{"stream":"btcusdt@trade","data":{"e":"trade","E":1672515782136,"s":"BTCUSDT","t":12345,` +
		`"p":"67000.01","q":"0.5","T":1672515782130,"m":true,"M":true}}`
	klineText = `{"stream":"btcusdt@kline_1m","data":{"e":"kline","E":1672515840003,"s":"BTCUSDT",` +
		`"k":{"t":1672515780000,"T":1672515839999,"s":"BTCUSDT","i":"1m","f":100,"L":200,"o":"10","c":"12",` +
		`"h":"13","l":"9","v":"1000","n":100,"x":true,"q":"1.0","V":"500","Q":"0.5","B":"7"}}}`
	klineRows = `[[1499040000000,"0.01634790","0.80000000","0.01575800","0.01577100","148976.11427815",` +
		`1499043599999,"2434.19055334",308,"1756.87402397","28.46694368","0"]]`
)

var openKline = strings.Replace(klineText, `"x":true`, `"x":false`, 1)

func TestFieldsDifferInCase(t *testing.T) {
	t.Parallel()
	tick := marketdata.Tick{Price: 67000.01, Volume: .5, Time: 1672515782130}
	trade := message{kind: "trade", symbol: "BTCUSDT", tick: tick}
	bar := markettest.FlatBar(1672515780000, 60_000, 10)
	bar.High, bar.Low, bar.Close, bar.Volume = 13, 9, 12, 1000
	for _, c := range []struct {
		text string
		want message
		bad  bool
	}{
		{text: tradeText, want: trade},
		// An unknown field must not replace a known one.
		{text: strings.Replace(tradeText, `"M":true`, `"P":"1","Q":"2"`, 1), want: trade},
		{text: klineText, want: message{kind: "kline", symbol: "BTCUSDT", closed: true, bar: bar}},
		{text: openKline, want: message{kind: "kline", symbol: "BTCUSDT", bar: bar}},
		{text: `{"result":null,"id":3}`, want: message{id: 3}},
		{text: `{"error":{"code":2},"id":3}`, want: message{id: 3, fault: `{"code":2}`}},
		{text: `{"e":"serverShutdown","E":1}`, want: message{kind: "serverShutdown"}},
		{text: `{"e":"24hrMiniTicker","E":1,"s":"BTCUSDT","c":"1"}`, want: message{kind: "24hrMiniTicker"}},
		{text: strings.Replace(tradeText, `"67000.01"`, `null`, 1), bad: true},
		{text: strings.Replace(tradeText, `"67000.01"`, `67000.01`, 1), bad: true},
		{text: strings.Replace(tradeText, `"p":"67000.01",`, ``, 1), bad: true},
		{text: strings.Replace(klineText, `"k":{`, `"k":null,"z":{`, 1), bad: true},
		{text: tradeText[:60], bad: true},
		{text: `[]`, bad: true},
		{text: `{}`, bad: true},
		{text: `{"data":null}`, bad: true},
	} {
		m, err := decodeMessage([]byte(c.text))
		if d := cmp.Diff(c.want, m, cmp.AllowUnexported(message{})); d != "" || (err != nil) != c.bad {
			t.Errorf("%s: %v\n%s", c.text, err, d)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(tradeText))
	f.Add([]byte(klineText))
	f.Add([]byte(klineRows))
	f.Fuzz(func(t *testing.T, data []byte) {
		decodeMessage(data)
		decodeKlines(data)
	})
}

func readBars(t *testing.T, f http.HandlerFunc) markettest.ReadBars {
	t.Helper()
	return NewClient(markettest.Serve(t, f), fetch.New(fetch.Options{Name: Name})).Bars
}

func TestBars(t *testing.T) {
	t.Parallel()
	markettest.Request{
		Answer: klineRows,
		Symbol: "BTCUSDT", Frame: signal.H1, From: 1499040000000, To: 1499050800000,
		URI: "/api/v3/klines?endTime=1499050799999&interval=1h&limit=1000&startTime=1499040000000&symbol=BTCUSDT",
		Bars: []marketdata.Bar{{OpenTime: 1499040000000, CloseTime: 1499043600000,
			Open: .0163479, High: .8, Low: .015758, Close: .015771, Volume: 148976.11427815}},
	}.CheckBars(t, readBars)
}

func TestBarsComeInPages(t *testing.T) {
	t.Parallel()
	markettest.CheckPages(t, 2500, func(r *http.Request) string {
		var from, to int64
		fmt.Sscan(r.FormValue("startTime"), &from)
		fmt.Sscan(r.FormValue("endTime"), &to)
		var rows []string
		for at := from; at <= to && len(rows) < pageLimit; at += 60_000 {
			rows = append(rows, fmt.Sprintf(`[%d,"1","1","1","1","1",%d]`, at, at+59_999))
		}
		return "[" + strings.Join(rows, ",") + "]"
	}, readBars)
}

func TestBarsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	kline := func(old, new string) markettest.Unreadable {
		return markettest.Unreadable{Status: 200, Body: strings.Replace(klineRows, old, new, 1), Kind: fetch.Content}
	}
	markettest.CheckUnreadable(t, map[string]markettest.Unreadable{
		"invalid symbol":   {Status: 400, Body: `{"code":-1121,"msg":"Invalid symbol."}`},
		"invalid interval": {Status: 400, Body: `{"code":-1120,"msg":"Invalid interval."}`, Kind: fetch.Refused},
		"firewall":         {Status: 403, Body: `<html>`, Kind: fetch.Refused},
		"truncated":        {Status: 200, Body: klineRows[:60], Kind: fetch.Content},
		"null":             {Status: 200, Body: `null`, Kind: fetch.Content},
		"object":           {Status: 200, Body: `{"code":0}`, Kind: fetch.Content},
		"null price":       kline(`"0.80000000"`, `null`),
		"number price":     kline(`"0.80000000"`, `0.8`),
		"text price":       kline(`"0.80000000"`, `"high"`),
		"null row":         {Status: 200, Body: `[null]`, Kind: fetch.Content},
		"short row":        {Status: 200, Body: `[[1,"1"]]`, Kind: fetch.Content},
		"null time":        kline(`1499040000000`, `null`),
	}, readBars)
}

// pipe is a listener for in-memory connections of dial. Time in a synctest bubble advances while they wait.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error   { close(p.done); return nil }
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{} }

// stream runs test in a bubble with a stream whose server passes each connection, numbered from 1, to serve.
func stream(t *testing.T, o StreamOptions, serve func(n int, ws *websocket.Conn), test func(t *testing.T, s *Stream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pipe{make(chan net.Conn), make(chan struct{})}
		n, served := 0, sync.WaitGroup{} // connections begin one after the other
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			count, up := n, websocket.Upgrader{}
			if ws, err := up.Upgrade(w, r, nil); err == nil {
				defer ws.Close()
				serve(count, ws)
			}
		})}
		served.Go(func() { server.Serve(p) })
		o.URL, o.Dial = "ws://exchange", p.dial
		s := NewStream(o)
		ctx, cancel := context.WithCancel(t.Context())
		served.Go(func() { s.Run(ctx) })
		test(t, s)
		cancel()
		server.Close()
		served.Wait()
	})
}

// sent is a request of the stream.
type sent struct {
	Method string
	Params []string
	ID     int64
}

func acknowledge(ws *websocket.Conn) (sent, error) {
	var s sent
	if err := ws.ReadJSON(&s); err != nil {
		return s, err
	}
	return s, ws.WriteJSON(map[string]any{"result": nil, "id": s.ID})
}

// acknowledgeAll answers requests until the connection ends.
func acknowledgeAll(ws *websocket.Conn) {
	for {
		if _, err := acknowledge(ws); err != nil {
			return
		}
	}
}

func follow(t *testing.T, s *Stream, symbol string) (events <-chan Event, stop func()) {
	t.Helper()
	all := make(chan Event, 100)
	stop, ok := s.Follow(symbol, func(e Event) { all <- e })
	if !ok {
		t.Fatal("not followed")
	}
	return all, stop
}

func kinds(t *testing.T, events <-chan Event, want ...EventKind) {
	t.Helper()
	for i, k := range want {
		select {
		case e := <-events:
			if e.Kind != k {
				t.Fatalf("event %d is %d, want %d", i, e.Kind, k)
			}
		case <-time.After(2 * lifetime):
			t.Fatalf("event %d does not come", i)
		}
	}
}

func TestStreamPassesEvents(t *testing.T) {
	t.Parallel()
	var requests chan sent
	faulty := 0
	serve := func(_ int, ws *websocket.Conn) {
		ws.WriteMessage(websocket.TextMessage, []byte(tradeText)) // ignored: not subscribed yet
		for {
			s, err := acknowledge(ws)
			if err != nil {
				return
			}
			requests <- s
			for _, text := range []string{`{"nonsense`, tradeText, klineText, openKline} {
				ws.WriteMessage(websocket.TextMessage, []byte(text))
			}
		}
	}
	stream(t, StreamOptions{Faulty: func() { faulty++ }}, serve, func(t *testing.T, s *Stream) {
		requests = make(chan sent, 10) // in the bubble
		events, stop := follow(t, s, "BTCUSDT")
		kinds(t, events, Up, Trade, Closed, Alive)
		synctest.Wait()
		streams := []string{"btcusdt@trade", "btcusdt@kline_1m"}
		if d := cmp.Diff(sent{"SUBSCRIBE", streams, 1}, <-requests); d != "" || faulty != 1 {
			t.Errorf("%d faulty messages\n%s", faulty, d)
		}
		if _, ok := s.Follow("BTCUSDT", nil); ok {
			t.Error("a symbol is followed twice")
		}
		stop()
		time.Sleep(time.Second)
		if d := cmp.Diff(sent{"UNSUBSCRIBE", streams, 2}, <-requests); d != "" {
			t.Error(d)
		}
	})
}

// The exchange takes 1,024 streams of a connection, and 5 requests a second.
func TestStreamReplacesAllSymbols(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	subscribed := map[string]bool{}
	serve := func(_ int, ws *websocket.Conn) {
		var times []time.Time
		for {
			r, err := acknowledge(ws)
			if err != nil {
				return
			}
			times = append(times, time.Now())
			if n := len(times); n > 5 && times[n-1].Sub(times[n-6]) < time.Second {
				t.Error("more than 5 requests in a second")
			}
			mu.Lock()
			for _, name := range r.Params {
				if r.Method == "SUBSCRIBE" {
					subscribed[name] = true
				} else {
					delete(subscribed, name)
				}
			}
			if len(subscribed) > 1024 {
				t.Errorf("%d streams of one connection", len(subscribed))
			}
			mu.Unlock()
		}
	}
	stream(t, StreamOptions{}, serve, func(t *testing.T, s *Stream) {
		check := func(what, prefix string, n int) {
			t.Helper()
			time.Sleep(20 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			want := map[string]bool{}
			for i := range n {
				want[fmt.Sprint(prefix, i, "@trade")], want[fmt.Sprint(prefix, i, "@kline_1m")] = true, true
			}
			if d := cmp.Diff(want, subscribed); d != "" {
				t.Errorf("%s: %d streams, want %d\n%.300s", what, len(subscribed), len(want), d)
			}
		}
		followAll := func(prefix string) (stops []func()) {
			for i := range maxSymbols {
				_, stop := follow(t, s, fmt.Sprint(prefix, i))
				stops = append(stops, stop)
			}
			return stops
		}
		old := followAll("A")
		check("all", "a", maxSymbols)
		for _, stop := range old {
			stop()
		}
		old = followAll("B")
		check("all replaced", "b", maxSymbols)
		for _, stop := range old[perRequest/2:] {
			stop()
		}
		check("some stopped", "b", perRequest/2)
	})
}

// However a connection ends, its followers are notified of that and of the next one.
func TestStreamConnectsAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end   func(ws *websocket.Conn)
		after time.Duration // when it is noticed, within two seconds
	}{
		"cut": {func(ws *websocket.Conn) { ws.Close() }, 0},
		"announced": {func(ws *websocket.Conn) {
			ws.WriteMessage(1, []byte(`{"e":"serverShutdown","E":1}`))
			ws.ReadMessage()
		}, 0},
		"before the server cuts it after a day": {func(ws *websocket.Conn) {
			for ws.WriteMessage(1, []byte(tradeText)) == nil {
				time.Sleep(silence / 2)
			}
		}, lifetime},
		"half-open": {func(ws *websocket.Conn) { ws.ReadMessage() }, silence},
		"too long message": {func(ws *websocket.Conn) {
			ws.WriteMessage(1, make([]byte, maxMessage+1))
			ws.ReadMessage()
		}, 0},
		"nonsense all the time": {func(ws *websocket.Conn) {
			for ws.WriteMessage(1, []byte(`{}`)) == nil {
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serve := func(n int, ws *websocket.Conn) {
				if _, err := acknowledge(ws); err != nil {
					return
				}
				if n == 1 {
					c.end(ws)
					return
				}
				ws.ReadMessage()
			}
			stream(t, StreamOptions{}, serve, func(t *testing.T, s *Stream) {
				begun := time.Now()
				events, _ := follow(t, s, "BTCUSDT")
				kinds(t, events, Up)
				e := <-events
				for e.Kind == Trade {
					e = <-events
				}
				if took := time.Since(begun); e.Kind != Down || took < c.after || took > c.after+2*time.Second {
					t.Errorf("event %d comes after %s, want the end of the connection after %s", e.Kind, took, c.after)
				}
				kinds(t, events, Up)
			})
		})
	}
}

// Pings alone keep a connection, because there may be no trades for a while.
func TestPingsKeepAConnection(t *testing.T) {
	t.Parallel()
	const pings = 15
	var pongs chan string
	serve := func(n int, ws *websocket.Conn) {
		ws.SetPongHandler(func(text string) error {
			pongs <- text
			return nil
		})
		go func() {
			for i := range pings {
				time.Sleep(20 * time.Second)
				ws.WriteControl(websocket.PingMessage, fmt.Append(nil, n, " ", i), time.Now().Add(time.Second))
			}
		}()
		acknowledgeAll(ws)
	}
	stream(t, StreamOptions{}, serve, func(t *testing.T, s *Stream) {
		pongs = make(chan string, pings) // in the bubble
		events, _ := follow(t, s, "BTCUSDT")
		kinds(t, events, Up)
		for i := range pings {
			if got := <-pongs; got != fmt.Sprint("1 ", i) {
				t.Fatalf("pong %q, want that of ping %d on the first connection", got, i)
			}
		}
	})
}

func TestPanicEndsOneConnection(t *testing.T) {
	t.Parallel()
	serve := func(n int, ws *websocket.Conn) {
		if n == 1 {
			ws.WriteMessage(websocket.TextMessage, []byte("nonsense"))
		}
		acknowledgeAll(ws)
	}
	stream(t, StreamOptions{Faulty: func() { panic("at a message") }}, serve, func(t *testing.T, s *Stream) {
		events, _ := follow(t, s, "BTCUSDT")
		kinds(t, events, Up)
	})
}
