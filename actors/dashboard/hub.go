package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

// Options configure a Hub. PartitionOf is required; the zero value of any other field
// means its default.
type Options struct {
	PartitionOf   func(signal.AccountID) int
	Authenticator Authenticator // nil to refuse auth messages
	Follower      Follower      // nil if Publish gets the events of all partitions
	OtherNodes    OtherNodes    // nil on a single node
	Log           EventLog      // nil to resume from the ring only
	Metrics       *Metrics      // nil to count nothing
	Logger        *slog.Logger  // nil to discard
	Now           func() time.Time
	// Name returns the catalogue name of an asset by any of its spellings, for filters;
	// nil to keep the spelling.
	Name func(asset string) string
	// SuggestAssets returns the assets that a name in a filter of a view may stand for, if it looks misspelt; nil to
	// accept all names.
	SuggestAssets func(ctx context.Context, account signal.AccountID, v *signal.View, name string) []string
	// AgentNames returns the ids and the strategies that a view has of the agents that an account has or had; nil if it has
	// none.
	AgentNames func(ctx context.Context, account signal.AccountID, v *signal.View) ([]signal.AgentID, []string, error)
	// Prices returns the newest price of every asset, for market.price; nil to send none. It is
	// called once a second while a subscription names an asset, and not otherwise.
	Prices func(context.Context) ([]LastPrice, error)

	Heartbeat     time.Duration // 30 s
	PingInterval  time.Duration // 30 s
	LifeTimeout   time.Duration // 75 s without any bytes from the client
	AuthTimeout   time.Duration // 10 s
	QueueMessages int           // 256 messages that a client may be behind
	QueueBytes    int           // 1 MiB that a client may be behind
	MessageRate   int           // 20 messages per client and second

	MaxConnections int           // 10,000 per account, those of its readers not counted
	MaxReaders     int           // 50,000 connections of an account's readers together
	MaxAssets      int           // 10,000 that the filters of an account's connections name, each counted once
	ReplayMessages int           // 10,000
	ReplayAge      time.Duration // 1 h
	ReplayEntries  int           // 200,000 entries of the event log read for one resume
	ReplayBytes    int           // 256 MiB of frames read for the resumes of all accounts
	RingFrames     int           // 65,536 newest frames kept in memory
	RingBytes      int           // 128 MiB for all of them together
	Flushers       int           // GOMAXPROCS
	// RingIdle is how long the ring still gets an account's frames after the last of its
	// connections has ended; 10 minutes. The event log serves later resumes.
	RingIdle time.Duration
}

// Follower makes Publish get the events of partitions.
type Follower interface {
	// Follow has a partition followed until release is called. It does not block.
	Follow(partition int) (release func())
	// Shown reports that events of a partition go to so many connections, each counted for every event.
	Shown(partition, times int)
	// Attached reports whether Publish gets every later event of a partition that is followed.
	Attached(partition int) bool
	// Await waits for that. KindUnavailable: ctx ended first.
	Await(ctx context.Context, partition int) error
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler)).With("component", "dashboard")
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Authenticator == nil {
		o.Authenticator = rejectAll{}
	}
	o.Heartbeat = cmp.Or(o.Heartbeat, 30*time.Second)
	o.PingInterval = cmp.Or(o.PingInterval, 30*time.Second)
	o.LifeTimeout = cmp.Or(o.LifeTimeout, 75*time.Second)
	o.AuthTimeout = cmp.Or(o.AuthTimeout, 10*time.Second)
	o.QueueMessages = cmp.Or(o.QueueMessages, 256)
	o.QueueBytes = cmp.Or(o.QueueBytes, 1<<20)
	o.MessageRate = cmp.Or(o.MessageRate, 20)
	o.MaxConnections = cmp.Or(o.MaxConnections, 10_000)
	o.MaxReaders = cmp.Or(o.MaxReaders, 50_000)
	o.MaxAssets = cmp.Or(o.MaxAssets, 10_000)
	o.ReplayMessages = cmp.Or(o.ReplayMessages, 10_000)
	o.ReplayAge = cmp.Or(o.ReplayAge, time.Hour)
	o.ReplayEntries = cmp.Or(o.ReplayEntries, 200_000)
	o.ReplayBytes = cmp.Or(o.ReplayBytes, 256<<20)
	o.RingFrames = cmp.Or(o.RingFrames, 65_536)
	o.RingBytes = cmp.Or(o.RingBytes, 128<<20)
	o.Flushers = cmp.Or(o.Flushers, runtime.GOMAXPROCS(0))
	o.RingIdle = cmp.Or(o.RingIdle, 10*time.Minute)
	return o
}

// rejectAll is an Authenticator that accepts no credential.
type rejectAll struct{}

func (rejectAll) Authenticate(context.Context, string) (signal.Principal, error) {
	return signal.Principal{}, &signal.Error{
		Kind:    signal.KindUnauthorized,
		Code:    "invalid_token",
		Message: "credentials are not accepted",
	}
}

// Hub pushes events to the connections of this process. Its methods are safe for
// concurrent use.
type Hub struct {
	o        Options
	started  time.Time
	ring     *ring
	resumer  *resumer
	flushers []*flusher
	prices   *prices
	names    *namedAssets
	readers  *readers
	parent   engine.Ref
	turn     atomic.Uint64 // counts connections; it chooses the flusher of each

	// Of turn at the last call of Settle, and connections of a burst up to then. Only Settle uses them.
	counted, burst uint64

	tasks      tasks.Group // writes and reads that may block, and connections accepted during a drain
	publishing sync.Mutex  // keeps the ring and the inboxes in the same order; before mu
	// listened has the accounts whose events have frames. It is guarded by publishing, so that
	// an account gets every event that is published after its first connection was admitted.
	listened map[signal.AccountID]*listeners

	mu       sync.Mutex
	open     int
	draining bool
	empty    chan struct{} // closed once open is 0 while draining; nil otherwise
}

// listeners are the authenticated connections of an account.
type listeners struct {
	connections int
	readers     int    // of them, with a reader's credential
	left        int64  // when the last one ended, by Hub.clock; 0 while there is one
	release     func() // of the partition, which is followed while there is one
}

// A burst is at least burstConnections new connections, with at least burstStep from one call of Settle to
// the next.
const (
	burstConnections = 1000
	burstStep        = 50
)

// NewHub starts a hub. Drain ends it, and Close after that.
func NewHub(sys *engine.System, o Options) *Hub {
	h := &Hub{o: o.withDefaults(), started: time.Now(), listened: make(map[signal.AccountID]*listeners)}
	h.ring = newRing(h.o.RingFrames, h.o.RingBytes)
	h.resumer = newResumer(h.ring, h.o)
	h.prices = newPrices(h)
	h.names = newNamedAssets(h.o.MaxAssets)
	h.readers = newReaders(&h.o)
	for range h.o.Flushers {
		f := newFlusher(h)
		h.flushers = append(h.flushers, f)
		go f.run()
	}
	if h.o.Prices != nil {
		h.tasks.Go(context.Background(), h.prices.follow)
	}
	newParent := func() engine.Actor { return &connections{hub: h} }
	h.parent = sys.Spawn(engine.Supervisor, "dashboard", newParent, connectionFailures)
	return h
}

// connectionFailures stops the actor of a connection at its first panic: its state is
// lost, so the connection is closed and the client connects again.
var connectionFailures = engine.Supervision{Restarts: -1}

// connected asks for the actor of a new connection.
type connected struct {
	peer      *peer
	principal *signal.Principal
	first     *Subscription
}

// connections is the parent of the connections' actors.
type connections struct{ hub *Hub }

// Receive implements engine.Actor.
func (s *connections) Receive(c engine.Context) {
	if m, ok := c.Message().(connected); ok {
		c.Spawn(engine.Connection, m.peer.id, func() engine.Actor {
			return &connection{hub: s.hub, peer: m.peer, principal: m.principal, first: m.first}
		}, engine.Supervision{})
	}
}

// clock returns the time since the hub started, in nanoseconds, for times that clients do
// not see. It is never 0.
func (h *Hub) clock() int64 { return int64(time.Since(h.started)) + 1 }

// Serve takes over ws, which must not have been read from or written to since the upgrade.
// p is the principal of the handshake, or nil if the first message must authenticate; a reader was entered. The
// connection begins with first, which needs a principal, or if that is nil with a welcome.
// settled may be nil; it is called, possibly more than once, when the client was
// authenticated or its connection has ended. Serve returns at once. While the hub drains it
// closes ws with 1001.
func (h *Hub) Serve(ws *websocket.Conn, p *signal.Principal, first *Subscription, settled func()) {
	if settled == nil {
		settled = func() {}
	}
	h.serve(ws.NetConn(), &peer{settled: settled}, p, first)
}

// Conn carries the bytes of one client, as a net.Conn does. If it has a method CloseWrite, that ends what is sent.
type Conn interface {
	io.ReadWriteCloser
	SetWriteDeadline(t time.Time) error
}

// ServeEvents takes over conn, as Serve does, for Server-Sent Events. head is written before them. leave ends the
// connection as Drain would.
func (h *Hub) ServeEvents(conn Conn, head []byte, p *signal.Principal, first *Subscription) (leave func()) {
	peer := &peer{transport: eventStream, head: head, settled: func() {}}
	h.serve(conn, peer, p, first)
	return func() {
		if peer.flusher != nil {
			peer.flusher.post(closeConn{peer, closeGoingAway})
		}
	}
}

func (h *Hub) serve(conn Conn, peer *peer, p *signal.Principal, first *Subscription) {
	h.mu.Lock()
	if h.draining {
		h.mu.Unlock()
		h.o.Metrics.connected(connectGoingAway)
		peer.settled()
		if p != nil && p.View != nil {
			h.readers.leave(p.Key)
		}
		if !h.start(func() { sendAway(conn, peer.transport.appendClose(peer.head, closeGoingAway, h.o.Now())) }) {
			conn.Close()
		}
		return
	}
	h.open++
	h.mu.Unlock()
	f := h.flushers[h.turn.Add(1)%uint64(len(h.flushers))]
	peer.id, peer.flusher = signal.NewConnectionID(), f
	if p != nil && p.View != nil {
		peer.reader = p.Key
	}
	peer.socket = newSocket(conn, func() { f.post(writable{peer}) }, h.start, &f.poller)
	h.o.Metrics.opened(peer.transport, +1)
	f.post(attached{peer})
	h.parent.Tell(connected{peer, p, first})
}

// guard recovers from a panic of do.
func (h *Hub) guard(do func()) { panics.Guard(h.o.Logger, panics.Dashboard, do) }

// start implements startFunc.
func (h *Hub) start(do func()) bool {
	return h.tasks.Go(context.Background(), func(context.Context) { h.guard(do) })
}

// sendAway closes a connection accepted during a drain, after its last bytes.
func sendAway(conn Conn, last []byte) {
	conn.SetWriteDeadline(time.Now().Add(lingerTime))
	_, _ = conn.Write(last) // best effort: the client may have left
	conn.Close()
}

// Publish sends events of a partition to clients. The caller passes them in the order of
// the log. It does not block.
func (h *Hub) Publish(partition int, events []signal.Event) {
	if len(events) == 0 {
		return
	}
	o := published{partition: partition, first: events[0].Position, last: events[len(events)-1].Position}
	h.publishing.Lock()
	defer h.publishing.Unlock()
	shown := 0
	for i := range events {
		e := &events[i]
		l := h.listened[e.Account]
		if l == nil && !e.Type.Internal() {
			continue
		}
		if f := newFrame(e, h.o.Name); f != nil {
			o.frames = append(o.frames, f)
			if l != nil {
				shown += l.connections
			}
		}
	}
	if shown > 0 && h.o.Follower != nil {
		h.o.Follower.Shown(partition, shown)
	}
	h.resumer.counts.published(partition, o.last, len(events))
	// First the ring, then the inboxes: see flusher.missed.
	h.ring.add(partition, o.first, o.last, o.frames)
	for _, f := range h.flushers {
		f.post(o)
	}
}

// Revoke closes the connections whose credentials events have ended. Publish does so as well, but a
// credential may end after it was checked and before Publish gets the events of its account.
func (h *Hub) Revoke(events []signal.Event) {
	for _, f := range h.flushers {
		f.post(revoked{events})
	}
}

// Gap records that events of partition are missing between the last published one and the
// next. It closes the partition's connections with 1001, so that their clients reconnect
// and resume from the event log.
func (h *Hub) Gap(partition int) {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	h.ring.forget(partition)
	for _, f := range h.flushers {
		f.post(gapped{partition})
	}
}

// admit counts p for the account of its first principal, and reports whether it may stay: p must not have ended,
// and the account or its readers must be below their limit. From then on events of the account have frames.
func (h *Hub) admit(p *peer, first *signal.Principal) bool {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	account := first.Account
	l := h.listened[account]
	if p.departed {
		return false
	}
	p.asReader = first.View != nil
	if l != nil && l.full(p.asReader, &h.o) {
		if p.asReader {
			h.o.Metrics.refusedReader(refusedByAccount)
		}
		return false
	}
	partition := h.o.PartitionOf(account)
	if l == nil {
		l = &listeners{}
		h.listened[account] = l
		h.ring.listen(partition, account)
	}
	if l.connections == 0 && h.o.Follower != nil {
		l.release = h.o.Follower.Follow(partition)
	}
	l.connections++
	if p.asReader {
		l.readers++
	}
	l.left = 0
	p.account = account
	p.settled()
	return true
}

// full reports whether no further connection of the account, or of its readers, is admitted.
func (l *listeners) full(reader bool, o *Options) bool {
	if reader {
		return l.readers >= o.MaxReaders
	}
	return l.connections-l.readers >= o.MaxConnections
}

// leave is the end of admit.
func (h *Hub) leave(p *peer) {
	l := h.listened[p.account]
	if p.asReader {
		l.readers--
	}
	if l.connections--; l.connections > 0 {
		return
	}
	l.left = h.clock()
	if l.release != nil {
		l.release()
	}
}

// Trim ends the work for accounts whose connections ended longer than Options.RingIdle ago. It
// is called from time to time.
func (h *Hub) Trim() {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	before := h.clock() - int64(h.o.RingIdle)
	for account, l := range h.listened {
		if l.connections == 0 && l.left <= before {
			delete(h.listened, account)
			h.ring.ignore(account)
		}
	}
}

// Settle gives memory back to the system when a burst of new connections has ended, whose handshakes
// needed several times the memory that the connections hold. It is called every few seconds, and
// reports whether it did.
func (h *Hub) Settle() bool {
	made := h.turn.Load()
	step := made - h.counted
	h.counted = made
	if step >= burstStep {
		h.burst += step
		return false
	}
	ended := h.burst >= burstConnections
	if h.burst = 0; ended {
		debug.FreeOSMemory()
	}
	return ended
}

// connectionEnded counts a connection that has ended.
func (h *Hub) connectionEnded(p *peer) {
	h.o.Metrics.opened(p.transport, -1)
	h.o.Metrics.disconnected(p.closed)
	if !p.welcomed {
		h.o.Metrics.connected(connectResult(p.closed))
	}
	h.publishing.Lock()
	defer h.publishing.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	p.departed = true
	p.settled()
	if p.account != "" {
		h.names.end(p)
		h.leave(p)
	}
	if p.reader != "" {
		h.readers.leave(p.reader)
	}
	if h.open--; h.open == 0 && h.empty != nil {
		close(h.empty)
		h.empty = nil
	}
}

// Drain closes all present and later connections with 1001 and waits for their end.
// When ctx ends, it closes the sockets at once and returns ctx's error. The hub cannot be
// used afterwards.
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
		f.poller.close()
	}
	h.resumer.close()
	return err
}

// Close ends the reading of prices, and waits for writes that have blocked and until connections
// accepted during Drain are closed. Later ones are closed without a close frame.
func (h *Hub) Close(ctx context.Context) error { return h.tasks.Close(ctx) }

// EnterReader counts one more connection of a reader, which Serve takes over with its principal; without Serve, LeaveReader ends
// it. ErrTooManyConnections: the reader has as many as it may have.
func (h *Hub) EnterReader(ctx context.Context, p *signal.Principal) error {
	return h.readers.enter(ctx, p)
}

// LeaveReader ends what EnterReader has begun.
func (h *Hub) LeaveReader(p *signal.Principal) { h.readers.leave(p.Key) }

// enterReader counts c as a connection of the reader p, and no longer as one of another reader.
func (h *Hub) enterReader(ctx context.Context, c *peer, p *signal.Principal) error {
	if h.readerOf(c) == p.Key {
		return nil
	}
	if err := h.readers.enter(ctx, p); err != nil {
		return err
	}
	if !h.setReader(c, p.Key) {
		h.readers.leave(p.Key)
		return errEnded
	}
	return nil
}

func (h *Hub) readerOf(c *peer) signal.KeyID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return c.reader
}

// setReader makes c a connection of the reader key, or of none, instead of the one before. It is false if c has ended.
func (h *Hub) setReader(c *peer, key signal.KeyID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.departed {
		return false
	}
	if c.reader != "" {
		h.readers.leave(c.reader)
	}
	c.reader = key
	return true
}

// ReaderConnections returns how many connections readers have on all nodes, as far as they have some.
func (h *Hub) ReaderConnections(ctx context.Context, keys []signal.KeyID) (map[signal.KeyID]int, error) {
	return h.readers.everywhere(ctx, keys)
}
