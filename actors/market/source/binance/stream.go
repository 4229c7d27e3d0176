package binance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// StreamURL serves public market data only.
	StreamURL = "wss://data-stream.binance.vision"

	handshakeTimeout = 3 * time.Second
	// silence is after how long without any message, or ping, a connection is dead:
	// the server pings every 20 s.
	silence      = 60 * time.Second
	writeTimeout = 5 * time.Second
	// lifetime is after how long we renew a connection, before the server ends it
	// after a day.
	lifetime = 23*time.Hour + 30*time.Minute
	// requestEvery keeps what we send below five messages a second.
	requestEvery = 250 * time.Millisecond
	// ackWithin is how long the server may take to answer a request.
	ackWithin = 10 * time.Second
	// maxMessage bounds a message: an event has some 400 bytes.
	maxMessage = 1 << 16
	// maxSymbols is how many symbols one connection has: each has two streams, of 1,024
	// that there may be.
	maxSymbols = 500
	// perRequest is how many symbols one request names.
	perRequest = 50
	// The pause before connecting again: the server takes 300 connections in 5 minutes.
	firstReconnect   = 500 * time.Millisecond
	longestReconnect = 30 * time.Second
	// faultsAllowed is how many messages in a row may make no sense.
	faultsAllowed = 100
)

// EventKind is what an Event is about.
type EventKind int

// The kinds.
const (
	// Up: what comes from here on lacks nothing. What was before may be missing.
	Up EventKind = iota
	// Down: the connection is lost.
	Down
	// Trade has a Tick.
	Trade
	// Closed has a Bar of 1m.
	Closed
	// Alive: the exchange speaks of the symbol, although nothing was traded.
	Alive
	// Refused: the exchange does not take the symbol.
	Refused
)

// Event is what the exchange sends of a symbol.
type Event struct {
	Kind EventKind
	Tick marketdata.Tick
	Bar  marketdata.Bar
}

// StreamOptions are what a Stream is made with. The zero value of each field works.
type StreamOptions struct {
	URL    string // without a slash at its end; default StreamURL
	Log    *slog.Logger
	Faulty func() // called for each message that makes no sense; may be nil
	// Dial is for tests. The default bounds the time to connect.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Stream follows symbols over one connection, which it makes again whenever it ends.
type Stream struct {
	o       StreamOptions
	log     *slog.Logger
	changed chan struct{} // a symbol was added or removed

	mu    sync.Mutex
	wants map[string]*follower
}

// follower is who follows a symbol.
type follower struct {
	told func(Event)
	up   bool // it was told so
}

// NewStream returns a stream. Run must run for it to work.
func NewStream(o StreamOptions) *Stream {
	o.URL = cmp.Or(o.URL, StreamURL)
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: handshakeTimeout}).DialContext
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Faulty == nil {
		o.Faulty = func() {}
	}
	return &Stream{o: o, log: o.Log, changed: make(chan struct{}, 1), wants: make(map[string]*follower)}
}

// Follow has told called with every event of a symbol until the function that it
// returns is called. told must not wait. It returns false if there are too many
// symbols, or if that one is followed.
func (s *Stream) Follow(symbol string, told func(Event)) (stop func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wants) >= maxSymbols || s.wants[symbol] != nil {
		return nil, false
	}
	s.wants[symbol] = &follower{told: told}
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

// wanted returns the symbols that are followed, and whether its followers were notified that
// they are.
func (s *Stream) wanted() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]bool, len(s.wants))
	for symbol, f := range s.wants {
		all[symbol] = f.up
	}
	return all
}

func (s *Stream) tell(symbol string, e Event) {
	s.mu.Lock()
	f := s.wants[symbol]
	if f != nil && e.Kind == Up {
		f.up = true
	} else if f != nil && e.Kind == Down {
		f.up = false
	}
	s.mu.Unlock()
	if f != nil {
		f.told(e)
	}
}

// Run connects while there is something to follow, until ctx ends.
func (s *Stream) Run(ctx context.Context) {
	pause := firstReconnect
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
			s.tell(symbol, Event{Kind: Down})
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errRenew) || time.Since(begun) > time.Minute {
			pause = firstReconnect
		}
		s.log.Info("connection to the exchange ended", "source", Name, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, longestReconnect)
	}
}

// errRenew ends a connection that the server is about to end.
var errRenew = errors.New("connection is renewed")

// connection is one connection. All but read belongs to the goroutine of run.
type connection struct {
	s     *Stream
	ws    *websocket.Conn
	up    map[string]bool
	asked map[int64]request
	id    int64
}

// request is one that was not answered yet.
type request struct {
	symbols []string
	at      time.Time
}

func (c *connection) run(ctx context.Context) error {
	dialer := websocket.Dialer{HandshakeTimeout: handshakeTimeout, Proxy: http.ProxyFromEnvironment, NetDialContext: c.s.o.Dial}
	ws, response, err := dialer.DialContext(ctx, c.s.o.URL+"/stream", nil)
	if err != nil {
		if response != nil {
			return fmt.Errorf("connect: HTTP %d: %w", response.StatusCode, err)
		}
		return fmt.Errorf("connect: %w", err)
	}
	c.ws = ws
	defer ws.Close()
	ws.SetReadLimit(maxMessage)
	alive := func() { ws.SetReadDeadline(time.Now().Add(silence)) }
	alive()
	ws.SetPingHandler(func(text string) error {
		alive()
		return ws.WriteControl(websocket.PongMessage, []byte(text), time.Now().Add(writeTimeout))
	})
	// The end of the connection comes behind its last message, through the same channel:
	// what was answered before it is not dropped.
	incoming := make(chan received, 256)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if panics.Guard(c.s.log, panics.Source, func() { c.read(reading, alive, incoming) }, "source", Name) {
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
			closing := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
			_ = ws.WriteControl(websocket.CloseMessage, closing, time.Now().Add(time.Second))
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

// received is a message, or why there are no more.
type received struct {
	message
	err error
}

// read passes on what comes, in its order, until the connection or ctx ends.
func (c *connection) read(ctx context.Context, alive func(), out chan<- received) {
	faults := 0
	for {
		var r received
		_, data, err := c.ws.ReadMessage()
		if err != nil {
			r.err = fmt.Errorf("read: %w", err)
		} else {
			alive()
			if r.message, err = decodeMessage(data); err != nil {
				c.s.o.Faulty()
				if faults++; faults <= faultsAllowed {
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

// take works in a message.
func (c *connection) take(m message) error {
	switch m.kind {
	case "serverShutdown":
		return errRenew
	case "trade", "kline":
		if !c.up[m.symbol] {
			return nil // not answered for yet, or not followed any more
		}
		e := Event{Kind: Alive}
		switch {
		case m.kind == "trade":
			e = Event{Kind: Trade, Tick: m.tick}
		case m.closed:
			e = Event{Kind: Closed, Bar: m.bar}
		}
		c.s.tell(m.symbol, e)
	case "":
		r, ok := c.asked[m.id]
		delete(c.asked, m.id)
		if !ok {
			return nil
		}
		kind := Up
		if m.fault != "" {
			c.s.log.Warn("exchange refused to be followed", "source", Name, "fault", fmt.Sprintf("%.200s", m.fault))
			kind = Refused
		}
		for _, symbol := range r.symbols {
			c.up[symbol] = kind == Up
			c.s.tell(symbol, Event{Kind: kind})
		}
	}
	return nil
}

// subscribe sends one request if what is followed is not what shall be.
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
	var add, drop []string
	for symbol, told := range wanted {
		up, known := c.up[symbol]
		switch {
		case up && !told:
			c.s.tell(symbol, Event{Kind: Up}) // somebody else followed it before
		case !known && !waiting[symbol] && len(add) < perRequest:
			add = append(add, symbol)
		}
	}
	for symbol, up := range c.up {
		if _, ok := wanted[symbol]; !ok {
			delete(c.up, symbol)
			if up && len(drop) < perRequest {
				drop = append(drop, symbol)
			}
		}
	}
	if len(add) > 0 {
		c.id++
		c.asked[c.id] = request{add, time.Now()}
		if err := c.send("SUBSCRIBE", add); err != nil {
			return err
		}
	}
	if len(drop) > 0 {
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
