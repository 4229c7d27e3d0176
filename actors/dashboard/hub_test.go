package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is how long a test waits for an expected message.
const testTimeout = time.Minute

var alice, bob = signal.NewAccountID(), signal.NewAccountID()

// principalOf returns a principal of account with all scopes.
func principalOf(account signal.AccountID) *signal.Principal {
	return &signal.Principal{Account: account, Key: signal.NewKeyID(), Scopes: signal.AllScopes}
}

// journal is an event log and its tail. All accounts are in partition 3.
type journal struct {
	hub *Hub

	mu        sync.Mutex
	changed   *sync.Cond
	events    []signal.Event
	published int // number of events that were published or skipped
	reads     int
	fail      error
	onRead    func(limit int) error // is called before each read, whose error it may return
}

const testPartition = 3

func partitionOf(signal.AccountID) int { return testPartition }

func newJournal() *journal {
	j := &journal{}
	j.changed = sync.NewCond(&j.mu)
	return j
}

// record appends events to the log without publishing them.
func (j *journal) record(events ...signal.Event) []signal.Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	var positions []signal.Position
	for _, e := range events {
		p := signal.Position{MS: time.Now().UnixMilli()}
		if n := len(j.events); n > 0 {
			if last := j.events[n-1].Position; p.MS <= last.MS {
				p = last.Plus(1)
			}
		}
		e.Position = p
		j.events = append(j.events, e)
		positions = append(positions, p)
	}
	return positions
}

// publish passes the events that were not published yet to the hub.
func (j *journal) publish() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.published < len(j.events) {
		j.hub.Publish(testPartition, j.events[j.published:])
		j.published = len(j.events)
		j.changed.Broadcast()
	}
}

// append records and publishes.
func (j *journal) append(events ...signal.Event) []signal.Position {
	p := j.record(events...)
	j.publish()
	return p
}

// skip marks all events so far as past: they are in the log, but are not published.
func (j *journal) skip() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.published = len(j.events)
}

// recordPast records events that are not going to be published.
func (j *journal) recordPast(events ...signal.Event) []signal.Position {
	p := j.record(events...)
	j.skip()
	return p
}

func (j *journal) ReadLog(_ context.Context, partition int, after signal.Position, limit int) ([]signal.Event, error) {
	if j.onRead != nil {
		if err := j.onRead(limit); err != nil {
			return nil, err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reads++
	if partition != testPartition {
		return nil, errors.New("no such partition")
	}
	var found []signal.Event
	for _, e := range j.events {
		if e.Position.Compare(after) > 0 && len(found) < limit {
			found = append(found, e)
		}
	}
	return found, j.fail
}

func (j *journal) Wait(ctx context.Context, _ int, p signal.Position) error {
	stop := context.AfterFunc(ctx, j.changed.Broadcast)
	defer stop()
	j.mu.Lock()
	defer j.mu.Unlock()
	for ctx.Err() == nil {
		if j.published == len(j.events) || j.events[j.published].Position.Compare(p) > 0 {
			return nil
		}
		j.changed.Wait()
	}
	return ctx.Err()
}

// tokens is an Authenticator that accepts some tokens.
type tokens struct {
	mu    sync.Mutex
	known map[string]signal.Principal
	err   error
	gate  chan struct{} // blocks answers until it is closed; nil: does not
}

func (a *tokens) Authenticate(ctx context.Context, token string) (signal.Principal, error) {
	if a.gate != nil {
		select {
		case <-a.gate:
		case <-ctx.Done():
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return signal.Principal{}, a.err
	}
	p, ok := a.known[token]
	if !ok {
		return p, &signal.Error{Kind: signal.KindUnauthorized, Code: "invalid_token", Message: "no"}
	}
	return p, nil
}

// know makes a token that of p.
func (a *tokens) know(token string, p signal.Principal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[token] = p
}

// fail makes all later answers fail with err.
func (a *tokens) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

// service is a hub with a real listener.
type service struct {
	tb      testing.TB
	hub     *Hub
	journal *journal
	tokens  *tokens
	server  *httptest.Server
	actors  *prometheus.Registry

	mu        sync.Mutex
	principal *signal.Principal  // of the next handshake
	leaving   func(leave func()) // gets how to end connections by Server-Sent Events, unless it is nil

	unsettled atomic.Int64 // connections that were not authenticated and have not ended
}

func newService(tb testing.TB, change func(*Options)) *service {
	tb.Helper()
	s := newUnstarted(tb, change)
	s.server.Start()
	return s
}

// newUnstarted returns a service that does not listen yet.
func newUnstarted(tb testing.TB, change func(*Options)) *service {
	actors := prometheus.NewRegistry()
	sys := engine.NewSystem(engine.Options{Metrics: engine.NewMetrics(actors)})
	known := map[string]signal.Principal{"alice": *principalOf(alice)}
	s := &service{tb: tb, actors: actors, journal: newJournal(), tokens: &tokens{known: known}}
	o := Options{PartitionOf: partitionOf, Authenticator: s.tokens, Log: s.journal, Flushers: 2}
	if change != nil {
		change(&o)
	}
	s.hub = NewHub(sys, o)
	s.journal.hub = s.hub
	upgrader := websocket.Upgrader{ReadBufferSize: 512, WriteBufferSize: 1024, WriteBufferPool: &sync.Pool{},
		CheckOrigin: func(*http.Request) bool { return true }}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		p := s.principal
		s.mu.Unlock()
		var first *Subscription
		if query := r.URL.Query(); p != nil {
			if p.View != nil {
				if err := s.hub.EnterReader(r.Context(), p); err != nil {
					http.Error(w, err.Error(), http.StatusTooManyRequests)
					return
				}
			}
			first = ReadSubscription(p.View, func(name string) (string, bool) { return query.Get(name), query.Has(name) },
				func(name, detail string) { tb.Errorf("%s: %s", name, detail) })
		}
		if r.URL.Path == eventsPath {
			s.serveEvents(w, p, first)
			return
		}
		if ws, err := upgrader.Upgrade(w, r, nil); err == nil {
			s.unsettled.Add(1)
			s.hub.Serve(ws, p, first, sync.OnceFunc(func() { s.unsettled.Add(-1) }))
		}
	}))
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := s.hub.Drain(ctx); err != nil {
			tb.Errorf("drain: %v", err)
		}
		s.server.Close()
		if err := sys.Shutdown(ctx); err != nil {
			tb.Errorf("shutdown: %v", err)
		}
	})
	return s
}

// client is one connection of a test. It reads in the test's goroutine.
type client struct {
	tb     testing.TB
	ws     *websocket.Conn
	events *eventReader // in place of ws: by Server-Sent Events
}

// dial connects; p is the principal of the handshake, or nil.
func (s *service) dial(p *signal.Principal) *client {
	s.tb.Helper()
	return s.dialWith(p, websocket.DefaultDialer)
}

func (s *service) dialWith(p *signal.Principal, d *websocket.Dialer) *client {
	s.tb.Helper()
	return s.dialQuery(p, d, "")
}

// dialQuery connects with a query that may have the subscription.
func (s *service) dialQuery(p *signal.Principal, d *websocket.Dialer, query string) *client {
	s.tb.Helper()
	s.mu.Lock()
	s.principal = p
	s.mu.Unlock()
	ws, _, err := d.Dial("ws"+strings.TrimPrefix(s.server.URL, "http")+"?"+query, nil)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { ws.Close() })
	return &client{tb: s.tb, ws: ws}
}

// welcomed connects with an authenticated handshake and reads the welcome.
func (s *service) welcomed(p *signal.Principal) *client {
	s.tb.Helper()
	c := s.dial(p)
	c.want("welcome")
	return c
}

// newClient starts a service and connects to it as alice.
func newClient(tb testing.TB, change func(*Options)) (*service, *client) {
	tb.Helper()
	s := newService(tb, change)
	return s, s.welcomed(principalOf(alice))
}

// smallDialer connects with a small receive buffer.
func smallDialer(bytes int) *websocket.Dialer {
	return &websocket.Dialer{NetDial: func(network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(bytes)
		}
		return conn, err
	}}
}

// envelope is a message of the server.
type envelope struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Data      json.RawMessage `json:"data"`
	Timestamp string          `json:"timestamp"`
}

func (c *client) send(text string) {
	c.tb.Helper()
	if err := c.ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.tb.Fatalf("send %s: %v", text, err)
	}
}

// next returns the next message, or the error that ended the connection.
func (c *client) next() (envelope, error) {
	kind, text, err := c.read()
	if err != nil {
		return envelope{}, err
	}
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil || kind != websocket.TextMessage {
		c.tb.Fatalf("message %q of kind %d: %v", text, kind, err)
	}
	if _, err := time.Parse(signal.TimeLayout, e.Timestamp); err != nil {
		c.tb.Errorf("timestamp of %s: %v", text, err)
	}
	return e, nil
}

// read returns the next message, or the error that ended the connection.
func (c *client) read() (kind int, text []byte, err error) {
	if c.events != nil {
		text, err = c.events.next()
		return websocket.TextMessage, text, err
	}
	c.ws.SetReadDeadline(time.Now().Add(testTimeout))
	return c.ws.ReadMessage()
}

// want returns the next message, which must have the given type.
func (c *client) want(kind string) envelope {
	c.tb.Helper()
	e, err := c.next()
	if err != nil {
		c.tb.Fatalf("wait for %s: %v", kind, err)
	}
	if e.Type != kind {
		c.tb.Fatalf("got %s %s, want %s", e.Type, e.Data, kind)
	}
	return e
}

// ask sends a message and returns the next one, which must have the given type.
func (c *client) ask(text, kind string) envelope {
	c.tb.Helper()
	c.send(text)
	return c.want(kind)
}

// wantData is want that also checks the data.
func (c *client) wantData(kind, data string) {
	c.tb.Helper()
	if e := c.want(kind); string(e.Data) != data {
		c.tb.Fatalf("data of %s:\n got %s\nwant %s", kind, e.Data, data)
	}
}

// wantReply sends a message and checks the type and the data of the next one.
func (c *client) wantReply(text, kind, data string) {
	c.tb.Helper()
	c.send(text)
	c.wantData(kind, data)
}

// wantPart checks that the data of a message contains a text.
func (c *client) wantPart(e envelope, part string) {
	c.tb.Helper()
	if !strings.Contains(string(e.Data), part) {
		c.tb.Fatalf("data of %s: %s, want %s in it", e.Type, e.Data, part)
	}
}

// wantEvents checks that the next messages are the events at these positions.
func (c *client) wantEvents(kind string, want ...signal.Position) {
	c.tb.Helper()
	for _, p := range want {
		if e := c.want(kind); e.ID != p.String() {
			c.tb.Fatalf("got %s, want %s", e.ID, p)
		}
	}
}

// wantClose fails the test unless the connection is closed in time, after any messages.
func (c *client) wantClose(why closing) {
	c.tb.Helper()
	for end := time.Now().Add(testTimeout); ; {
		e, err := c.next()
		if err == nil {
			if time.Now().After(end) { // heartbeats come as long as the connection is open
				c.tb.Fatalf("it is still open and got %s, want %v", e.Type, why)
			}
			continue
		}
		if e, ok := errors.AsType[*websocket.CloseError](err); !ok || e.Code != why.code || e.Text != why.reason {
			c.tb.Fatalf("closed by %v, want %v", err, why)
		}
		return
	}
}

// wantCloseAfter sends a message that closes the connection.
func (c *client) wantCloseAfter(text string, why closing) {
	c.tb.Helper()
	c.send(text)
	c.wantClose(why)
}

// wantNothing fails the test if a message comes before the answer to a ping.
func (c *client) wantNothing() {
	c.tb.Helper()
	c.wantReply(`{"action":"ping","ref":"nothing"}`, "pong", `{"ref":"nothing"}`)
}

// created returns the event of a new signal on asset.
func created(account signal.AccountID, asset string) signal.Event {
	return signal.Event{ID: signal.NewEventID(), Account: account, Type: signal.SignalCreated, Asset: asset,
		Data: fmt.Appendf(nil, `{"signal_id":%q,"asset":%q}`, signal.NewSignalID(), asset)}
}

// bulky returns an event of alice with a text of n bytes.
func bulky(n int) signal.Event {
	e := created(alice, "BTC")
	e.Data = fmt.Appendf(nil, `{"asset":"BTC","text":%q}`, strings.Repeat("x", n))
	return e
}

// until waits for a condition.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(testTimeout); !ok(); {
		if time.Now().After(end) {
			tb.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestCloseWaitsForABlockedWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newBench(t, nil).hub
		client, conn := net.Pipe()
		s := newSocket(conn, func() {}, h.start, nil)
		if _, err := s.write(nil, []byte("x")); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- h.Close(t.Context()) }()
		synctest.Wait()
		if len(closed) > 0 {
			t.Fatal("the hub is closed during a write")
		}
		client.Close()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

func TestASocketClosesAfterItsHub(t *testing.T) {
	t.Parallel()
	h := newBench(t, nil).hub
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	client, conn := net.Pipe()
	newSocket(conn, func() {}, h.start, nil).Close()
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading from the other end: %v, want EOF", err)
	}
}

func TestMemoryIsGivenBackAfterABurst(t *testing.T) {
	t.Parallel()
	h := newBench(t, nil).hub
	var got []bool
	for _, step := range []uint64{49, 49, 900, 100, 0, 0, 950, 49, 3000, 50, 10} {
		h.turn.Add(step)
		got = append(got, h.Settle())
	}
	want := []bool{false, false, false, false, true, false, false, false, false, false, true}
	if !slices.Equal(got, want) {
		t.Errorf("given back at %v, want %v", got, want)
	}
}
