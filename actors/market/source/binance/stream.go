package binance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// StreamURL serves public market data only.
	StreamURL = "wss://data-stream.binance.vision"

	handshakeTimeout = 3 * time.Second
	// silence is the time without message or ping after which a connection is dead. The server
	// pings every 20 s.
	silence      = 60 * time.Second
	writeTimeout = 5 * time.Second
	// lifetime is the age at which a connection is renewed, before the server ends it after a day.
	lifetime = 23*time.Hour + 30*time.Minute
	// requestEvery keeps us below five requests a second.
	requestEvery = 250 * time.Millisecond
	// ackWithin bounds the time until the server answers a request.
	ackWithin = 10 * time.Second
	// maxMessage bounds a message: an event has some 400 bytes.
	maxMessage = 1 << 16
	// maxSymbols bounds the symbols of one connection. Each has two of at most 1,024 streams.
	maxSymbols = 500
	// perRequest bounds the symbols of one request.
	perRequest = 50
	// The pause before connecting again: the server takes 300 connections in 5 minutes.
	minReconnectPause = 500 * time.Millisecond
	maxReconnectPause = 30 * time.Second
	// maxFaults bounds consecutive messages that cannot be decoded.
	maxFaults = 100
)

// EventKind is the kind of an Event.
type EventKind int

// The kinds.
const (
	// Up: later events are complete. Earlier ones may be missing.
	Up EventKind = iota
	// Down: the connection is lost.
	Down
	// Trade has a Tick.
	Trade
	// Closed has a Bar of 1m.
	Closed
	// Alive: the exchange sent a message of the symbol without a trade.
	Alive
	// Refused: the exchange refused the symbol.
	Refused
)

// Event is an event of a symbol.
type Event struct {
	Kind EventKind
	Tick marketdata.Tick
	Bar  marketdata.Bar
}

// StreamOptions are what a Stream is made with. The zero value of each field works.
type StreamOptions struct {
	URL    string // without a slash at its end; default StreamURL
	Log    *slog.Logger
	Faulty func() // called for each message that cannot be decoded; may be nil
	// Dial is for tests. The default bounds the time to connect.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Stream follows symbols over one connection, which it renews whenever it ends.
type Stream struct {
	o       StreamOptions
	changed chan struct{} // receives after a symbol was added or removed

	mu    sync.Mutex
	wants map[string]*follower
}

// follower receives the events of a symbol.
type follower struct {
	notify func(Event)
	up     bool // it was notified of Up, and not of Down since
}

// NewStream returns a stream. Run must run for it to work.
func NewStream(o StreamOptions) *Stream {
	o.URL = cmp.Or(o.URL, StreamURL)
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: handshakeTimeout}).DialContext
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Faulty == nil {
		o.Faulty = func() {}
	}
	return &Stream{o: o, changed: make(chan struct{}, 1), wants: make(map[string]*follower)}
}

// Follow passes every event of a symbol to notify, which must not wait, until stop is called. It
// returns false if there are too many symbols, or if that one is followed already.
func (s *Stream) Follow(symbol string, notify func(Event)) (stop func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wants) >= maxSymbols || s.wants[symbol] != nil {
		return nil, false
	}
	s.wants[symbol] = &follower{notify: notify}
	s.wake()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.wants, symbol)
		s.wake()
	}, true
}

func (s *Stream) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// wanted returns, for each symbol that is followed, whether its follower was notified of Up.
func (s *Stream) wanted() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]bool, len(s.wants))
	for symbol, f := range s.wants {
		all[symbol] = f.up
	}
	return all
}

func (s *Stream) notify(symbol string, e Event) {
	s.mu.Lock()
	f := s.wants[symbol]
	if f != nil && (e.Kind == Up || e.Kind == Down) {
		f.up = e.Kind == Up
	}
	s.mu.Unlock()
	if f != nil {
		f.notify(e)
	}
}

// Run connects while there is something to follow, until ctx ends.
func (s *Stream) Run(ctx context.Context) {
	retries := backoff.Backoff{Min: minReconnectPause, Max: maxReconnectPause, Jitter: true}
	for ctx.Err() == nil {
		if len(s.wanted()) == 0 {
			select {
			case <-ctx.Done():
			case <-s.changed:
			}
			continue
		}
		c := &connection{s: s, up: make(map[string]bool), asked: make(map[int64]request)}
		begun := time.Now()
		err := c.run(ctx)
		for symbol := range c.up {
			s.notify(symbol, Event{Kind: Down})
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errRenew) || time.Since(begun) > time.Minute {
			retries.Reset()
		}
		s.o.Log.Info("connection to the exchange ended", "source", Name, "err", err)
		retries.Wait(ctx)
	}
}

// errRenew ends a connection before the server does.
var errRenew = errors.New("connection is renewed")

// connection is one connection. All but read belongs to the goroutine of run.
type connection struct {
	s     *Stream
	ws    *websocket.Conn
	up    map[string]bool
	asked map[int64]request
	id    int64
}

// request is a request without an answer so far.
type request struct {
	symbols []string
	at      time.Time
}

// connect opens the connection.
func (c *connection) connect(ctx context.Context) error {
	dialer := *websocket.DefaultDialer
	dialer.HandshakeTimeout, dialer.NetDialContext = handshakeTimeout, c.s.o.Dial
	ws, response, err := dialer.DialContext(ctx, c.s.o.URL+"/stream", nil)
	if err != nil {
		if response != nil {
			return fmt.Errorf("connect: HTTP %d: %w", response.StatusCode, err)
		}
		return fmt.Errorf("connect: %w", err)
	}
	c.ws = ws
	ws.SetReadLimit(maxMessage)
	c.alive()
	ws.SetPingHandler(func(text string) error {
		c.alive()
		return ws.WriteControl(websocket.PongMessage, []byte(text), time.Now().Add(writeTimeout))
	})
	return nil
}

// alive gives the server until silence for its next message or ping.
func (c *connection) alive() { c.ws.SetReadDeadline(time.Now().Add(silence)) }

// run opens the connection and handles its messages until it or ctx ends.
func (c *connection) run(ctx context.Context) error {
	if err := c.connect(ctx); err != nil {
		return err
	}
	// The end of the connection comes through the channel of its messages, so that none is dropped.
	incoming := make(chan received, 256)
	reading, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() {
		stop()
		c.ws.Close()
		<-ended
	}()
	go func() {
		defer close(ended)
		if panics.Guard(c.s.o.Log, panics.Source, func() { c.read(reading, incoming) }, "source", Name) {
			return
		}
		select {
		case incoming <- received{err: panics.ErrPanicked}:
		case <-reading.Done():
		}
	}()
	renew, pace := time.NewTimer(lifetime), time.NewTicker(requestEvery)
	defer renew.Stop()
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
			_ = c.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
			return ctx.Err()
		case <-renew.C:
			return errRenew
		case r := <-incoming:
			if r.err != nil {
				return r.err
			}
			if err := c.take(r.message); err != nil {
				return err
			}
		case <-pace.C:
			if err := c.subscribe(); err != nil {
				return err
			}
		}
	}
}

// received is a message, or the error that ended the connection.
type received struct {
	message
	err error
}

// read passes messages to out in order until the connection or ctx ends.
func (c *connection) read(ctx context.Context, out chan<- received) {
	faults := 0
	for {
		var r received
		_, data, err := c.ws.ReadMessage()
		if err != nil {
			r.err = fmt.Errorf("read: %w", err)
		} else {
			c.alive()
			if r.message, err = decodeMessage(data); err != nil {
				c.s.o.Faulty()
				if faults++; faults <= maxFaults {
					continue
				}
				r.err = err
			} else {
				faults = 0
			}
		}
		select {
		case out <- r:
		case <-ctx.Done():
			return
		}
		if r.err != nil {
			return
		}
	}
}

func (c *connection) take(m message) error {
	switch m.kind {
	case "serverShutdown":
		return errRenew
	case "trade", "kline":
		if !c.up[m.symbol] {
			return nil // not acknowledged yet, or no longer followed
		}
		e := Event{Kind: Alive}
		switch {
		case m.kind == "trade":
			e = Event{Kind: Trade, Tick: m.tick}
		case m.closed:
			e = Event{Kind: Closed, Bar: m.bar}
		}
		c.s.notify(m.symbol, e)
	case "":
		r, ok := c.asked[m.id]
		delete(c.asked, m.id)
		if !ok {
			return nil
		}
		kind := Up
		if m.fault != "" {
			c.s.o.Log.Warn("subscription refused", "source", Name, "fault", fmt.Sprintf("%.200s", m.fault))
			kind = Refused
		}
		for _, symbol := range r.symbols {
			c.up[symbol] = kind == Up
			c.s.notify(symbol, Event{Kind: kind})
		}
	}
	return nil
}

// subscribe sends a request for symbols that were added, as long as the connection has room for
// them, or else for symbols that were removed. Others wait for the next one.
func (c *connection) subscribe() error {
	waiting := make(map[string]bool)
	for _, r := range c.asked {
		if time.Since(r.at) > ackWithin {
			return errors.New("the exchange does not answer requests")
		}
		for _, symbol := range r.symbols {
			waiting[symbol] = true
		}
	}
	wanted := c.s.wanted()
	room := min(perRequest, maxSymbols-len(c.up)-len(waiting))
	var add, drop []string
	for symbol, notified := range wanted {
		up, known := c.up[symbol]
		switch {
		case up && !notified:
			c.s.notify(symbol, Event{Kind: Up}) // another follower subscribed to it
		case !known && !waiting[symbol] && len(add) < room:
			add = append(add, symbol)
		}
	}
	for symbol, up := range c.up {
		if _, ok := wanted[symbol]; ok || up && (len(add) > 0 || len(drop) == perRequest) {
			continue
		}
		delete(c.up, symbol)
		if up {
			drop = append(drop, symbol)
		}
	}
	switch {
	case len(add) > 0:
		c.id++
		c.asked[c.id] = request{add, time.Now()}
		return c.send("SUBSCRIBE", add)
	case len(drop) > 0:
		c.id++
		return c.send("UNSUBSCRIBE", drop)
	}
	return nil
}

func (c *connection) send(method string, symbols []string) error {
	params := make([]string, 0, 2*len(symbols))
	for _, symbol := range symbols {
		name := strings.ToLower(symbol)
		params = append(params, name+"@trade", name+"@kline_1m")
	}
	text, err := json.Marshal(map[string]any{"method": method, "params": params, "id": c.id})
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	c.ws.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := c.ws.WriteMessage(websocket.TextMessage, text); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}
