package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

// Options are what a Hub is made with. PartitionOf is required; of the rest the
// zero value is the default.
type Options struct {
	PartitionOf   func(signal.AccountID) int
	Authenticator Authenticator // nil: auth messages are refused
	Log           EventLog      // nil: resumes reach back as far as the ring only
	Metrics       *Metrics      // nil: none
	Logger        *slog.Logger  // nil: none
	Now           func() time.Time
	// Name returns the catalogue name of an asset by any of its spellings, for filters;
	// nil: the spelling itself.
	Name func(asset string) string

	Heartbeat     time.Duration // 30 s
	PingInterval  time.Duration // 30 s
	LifeTimeout   time.Duration // 75 s without a sign of life
	AuthTimeout   time.Duration // 10 s
	QueueMessages int           // 256 behind
	QueueBytes    int           // 1 MiB behind
	MessageRate   int           // 20 messages of a client a second

	MaxConnections int           // 10,000 of an account
	ReplayMessages int           // 10,000
	ReplayAge      time.Duration // 1 h
	ReplayEntries  int           // 200,000 entries of the event log read for one resume
	ReplayBytes    int           // 256 MiB of frames that resumes of all accounts have read
	RingFrames     int           // 65,536 newest frames are in memory
	RingBytes      int           // of at most 128 MiB together
	Flushers       int           // GOMAXPROCS
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("component", "dashboard")
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Authenticator == nil {
		o.Authenticator = nobody{}
	}
	o.Heartbeat = cmp.Or(o.Heartbeat, 30*time.Second)
	o.PingInterval = cmp.Or(o.PingInterval, 30*time.Second)
	o.LifeTimeout = cmp.Or(o.LifeTimeout, 75*time.Second)
	o.AuthTimeout = cmp.Or(o.AuthTimeout, 10*time.Second)
	o.QueueMessages = cmp.Or(o.QueueMessages, 256)
	o.QueueBytes = cmp.Or(o.QueueBytes, 1<<20)
	o.MessageRate = cmp.Or(o.MessageRate, 20)
	o.MaxConnections = cmp.Or(o.MaxConnections, 10_000)
	o.ReplayMessages = cmp.Or(o.ReplayMessages, 10_000)
	o.ReplayAge = cmp.Or(o.ReplayAge, time.Hour)
	o.ReplayEntries = cmp.Or(o.ReplayEntries, 200_000)
	o.ReplayBytes = cmp.Or(o.ReplayBytes, 256<<20)
	o.RingFrames = cmp.Or(o.RingFrames, 65_536)
	o.RingBytes = cmp.Or(o.RingBytes, 128<<20)
	o.Flushers = cmp.Or(o.Flushers, runtime.GOMAXPROCS(0))
	return o
}

// nobody is an Authenticator that knows no credential.
type nobody struct{}

func (nobody) Authenticate(context.Context, string) (signal.Principal, error) {
	return signal.Principal{}, &signal.Error{Kind: signal.KindUnauthorized, Code: "invalid_token", Message: "credentials are not accepted"}
}

// Hub pushes events to the WebSockets of this process. Its methods may be called
// from anywhere.
type Hub struct {
	o        Options
	born     time.Time
	ring     *ring
	resumer  *resumer
	flushers []*flusher
	parent   engine.Ref
	turn     atomic.Uint64 // the flusher of the next connection

	late       tasks.Group // connections that came after a drain had begun
	publishing sync.Mutex  // keeps ring and inboxes in one order

	mu       sync.Mutex
	open     int
	accounts map[signal.AccountID]int // authenticated connections
	draining bool
	empty    chan struct{} // closed when open is 0 while draining; nil before
}

// NewHub starts a hub. Drain ends it, and Close after that.
func NewHub(sys *engine.System, o Options) *Hub {
	h := &Hub{o: o.withDefaults(), born: time.Now(), accounts: make(map[signal.AccountID]int)}
	h.ring = newRing(h.o.RingFrames, h.o.RingBytes)
	h.resumer = newResumer(h.ring, h.o)
	for range h.o.Flushers {
		f := newFlusher(h)
		h.flushers = append(h.flushers, f)
		go f.run()
	}
	h.parent = sys.Spawn(engine.Supervisor, "dashboard", func() engine.Actor { return &connections{hub: h} }, connectionFailures)
	return h
}

// connectionFailures stops a connection's actor that failed: what it knew of its
// client is lost, so the client is sent away and comes back.
var connectionFailures = engine.Supervision{Restarts: -1}

// connected hands a new connection to the parent of their actors.
type connected struct {
	peer      *peer
	principal *signal.Principal
}

// connections is the parent of the connections' actors.
type connections struct{ hub *Hub }

// Receive implements engine.Actor.
func (s *connections) Receive(c engine.Context) {
	if m, ok := c.Message().(connected); ok {
		c.Spawn(engine.Connection, m.peer.id, func() engine.Actor {
			return &connection{hub: s.hub, peer: m.peer, principal: m.principal}
		}, engine.Supervision{})
	}
}

// clock returns the time since the hub began, in nanoseconds, for all that is not
// shown to clients. It is never 0.
func (h *Hub) clock() int64 { return int64(time.Since(h.born)) + 1 }

// Serve takes over ws, which nothing was read from or written to since the
// upgrade. p is who authenticated the handshake; nil: the first message must. settled,
// if it is not nil, is called when the client was authenticated or is gone, perhaps
// more than once. Serve returns at once. After a drain has begun the client is sent
// away.
func (h *Hub) Serve(ws *websocket.Conn, p *signal.Principal, settled func()) {
	if settled == nil {
		settled = func() {}
	}
	h.serve(ws.NetConn(), p, settled)
}

func (h *Hub) serve(conn net.Conn, p *signal.Principal, settled func()) {
	h.mu.Lock()
	if h.draining {
		h.mu.Unlock()
		h.o.Metrics.connected(connectGoingAway)
		settled()
		if !h.late.Go(context.Background(), func(context.Context) { h.guard(func() { sendAway(conn) }) }) {
			conn.Close()
		}
		return
	}
	h.open++
	h.mu.Unlock()
	f := h.flushers[h.turn.Add(1)%uint64(len(h.flushers))]
	peer := &peer{id: signal.NewConnectionID(), flusher: f, settled: settled}
	peer.socket = newSocket(conn, func() { f.post(takenOver{peer}) }, h.guard)
	h.o.Metrics.opened(+1)
	f.post(attached{peer})
	h.parent.Tell(connected{peer, p})
}

// guard recovers from a panic of do.
func (h *Hub) guard(do func()) { panics.Guard(h.o.Logger, panics.Dashboard, do) }

// sendAway closes a connection that came after a drain had begun.
func sendAway(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(lingerTime))
	_, _ = conn.Write(appendClose(nil, closeGoingAway)) // if it fails, the client is gone already
	conn.Close()
}

// begin starts to read from p for its actor.
func (p *peer) begin(ref engine.Ref) {
	p.ref = ref
	p.reading.Store(true)
	go p.read()
}

// Publish brings events of a partition, in the order of its log. It does not wait.
func (h *Hub) Publish(partition int, events []signal.Event) {
	if len(events) == 0 {
		return
	}
	o := published{partition: partition, first: events[0].Position, last: events[len(events)-1].Position}
	for i := range events {
		if f := h.o.frameOf(&events[i]); f != nil {
			o.frames = append(o.frames, f)
		}
	}
	h.publishing.Lock()
	defer h.publishing.Unlock()
	h.resumer.counts.passed(partition, o.last, len(events))
	// First the ring, then the inboxes: see flusher.missed.
	h.ring.add(partition, o.first, o.last, o.frames)
	for _, f := range h.flushers {
		f.post(o)
	}
}

// Gap says that the events of partition between the last published and the next
// are not known. Its connections are closed with 1001: they come back at once and
// resume from the event log, or learn that it is trimmed.
func (h *Hub) Gap(partition int) {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	h.ring.forget(partition)
	for _, f := range h.flushers {
		f.post(gapped{partition})
	}
}

// admit counts p for account, unless it has ended or the account has too many.
func (h *Hub) admit(p *peer, account signal.AccountID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.departed || h.accounts[account] >= h.o.MaxConnections {
		return false
	}
	p.account = account
	h.accounts[account]++
	p.settled()
	return true
}

// left counts a connection that has ended.
func (h *Hub) left(p *peer) {
	h.o.Metrics.opened(-1)
	h.o.Metrics.disconnected(p.closed)
	if !p.welcomed {
		h.o.Metrics.connected(connectResult(p.closed))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p.departed = true
	p.settled()
	if p.account != "" {
		if h.accounts[p.account]--; h.accounts[p.account] == 0 {
			delete(h.accounts, p.account)
		}
	}
	if h.open--; h.open == 0 && h.empty != nil {
		close(h.empty)
		h.empty = nil
	}
}

// Drain closes all connections with 1001, and those that are still to come, and
// waits for their end. When ctx ends before, the sockets are closed without more
// ado and ctx's error is returned. The hub is of no use after it.
func (h *Hub) Drain(ctx context.Context) error {
	h.mu.Lock()
	h.draining = true
	empty := make(chan struct{})
	if h.open == 0 {
		close(empty)
	} else {
		h.empty = empty
	}
	h.mu.Unlock()
	for _, f := range h.flushers {
		f.post(drained{})
	}
	var err error
	select {
	case <-empty:
	case <-ctx.Done():
		err = fmt.Errorf("close connections: %w", ctx.Err())
		for _, f := range h.flushers {
			f.post(cutOff{})
		}
		select {
		case <-empty:
		case <-time.After(time.Second):
		}
	}
	for _, f := range h.flushers {
		f.post(halted{})
	}
	for _, f := range h.flushers {
		<-f.done
	}
	h.resumer.close()
	return err
}

// Close waits until clients that came after Drain had begun are sent away. Connections
// that come later still are cut.
func (h *Hub) Close(ctx context.Context) error { return h.late.Close(ctx) }
