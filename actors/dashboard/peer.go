package dashboard

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// peer is a connection as its flusher sees it.
type peer struct {
	// Fixed.
	id        string
	transport transport
	flusher   *flusher
	socket    socket
	settled   func() // called when it is authenticated or has ended
	head      []byte // written before all else; nil once it is queued

	// Set before an order that needs ref is posted, and before reading begins.
	ref     engine.Ref // the connection's actor
	reading atomic.Bool

	lastSeen atomic.Int64 // when the client last sent bytes, by Hub.clock

	// Guarded by Hub.mu.
	account  signal.AccountID // in Hub.listened; empty before authentication
	asReader bool             // counted among the account's readers
	reader   signal.KeyID     // in Hub.readers; empty unless it is a reader's
	departed bool

	// Guarded by namedAssets.mu.
	namer    namer
	named    []asset // by its filter or its view
	nameless bool    // it has ended

	// The rest is used by the flusher only.

	// Identity. audience is nil before authentication and after the end.
	audience *audience
	index    int // in audience.peers
	key      signal.KeyID
	session  signal.SessionID
	welcomed bool // has been authenticated

	// Subscription. During a replay cohort is nil.
	sub     *subscription // nil before authentication
	cohort  *cohort
	place   int    // in cohort.members
	offset  uint64 // of the next byte of the cohort's log
	frame   uint64 // number of the frame that contains offset
	lagging bool   // counted in cohort.lagging
	sent    []span
	lostTo  signal.Position // spans up to here were dropped from sent

	// Bytes for this client alone. They are written before anything else, at the next
	// frame boundary.
	private         []byte
	privateDone     int // bytes of private that are written
	privateMessages int

	// reached is the position up to which replays have read the event log: later events
	// are sent live.
	reached signal.Position
	replay  *replaying // nil outside of a replay

	ready          bool // listed in writer.ready
	awaitingPrices bool // listed in audiences.awaitingPrices
	refused        bool // listed in writer.waiting: the kernel accepts no more bytes
	// overSince is when the kernel first refused while p was over the queue's
	// limits; 0 if it is not.
	overSince int64

	// Times by Hub.clock.
	due      int64 // the earliest of those below; see lifecycle.peers
	rank     int   // index in the heap
	nextBeat int64 // 0 before authentication
	nextPing int64
	deadline int64 // when the socket is closed even if bytes are left; 0 while it is open

	closed   closing // zero while it is open
	finished bool    // the close frame is written
	removed  bool    // no longer in lifecycle.peers
}

// begin starts to read from p for its actor.
func (p *peer) begin() {
	p.reading.Store(true)
	switch p.transport {
	case webSocket:
		p.socket.listen(&reading{peer: p})
	case eventStream:
		p.socket.listen(&discarding{peer: p})
	}
}

// lifeless returns when p must be closed because its client has sent nothing for timeout. Clients of Server-Sent
// Events never send anything: the kernel finds out by the heartbeats whether they still are there.
func (p *peer) lifeless(timeout time.Duration) int64 {
	if p.transport == eventStream {
		return math.MaxInt64
	}
	return p.lastSeen.Load() + int64(timeout)
}

// ended reports whether p receives nothing more except its close frame.
func (p *peer) ended() bool { return p.closed.code != 0 || p.finished || p.removed }

// closeLimit returns how long a step of closing p may take that usually takes no longer than usual. A
// client that reads too slowly may come back as long as the kernel keeps what it has not read.
func (p *peer) closeLimit(usual time.Duration) int64 {
	if p.closed == closeSlow {
		return int64(userTimeout)
	}
	return int64(usual)
}

// wasSent reports whether frame was sent on this connection, or is queued for it.
func (p *peer) wasSent(frame *frame, at passage) bool {
	for _, s := range p.sent {
		from := s.from
		if s.early {
			if at.first.IsZero() {
				continue // nothing has been published yet
			}
			from = before(at.first)
		}
		to := s.to
		if s.open {
			to = at.last
		}
		if frame.at.Compare(from) > 0 && frame.at.Compare(to) <= 0 && s.sub.matches(frame) {
			return true
		}
	}
	return false
}

// span records that all events after from and up to to that match sub were sent.
type span struct {
	sub      *subscription
	from, to signal.Position
	// early means that nothing of the partition had been published when the span began,
	// so it begins with the first event published after that.
	early bool
	open  bool // has not ended: to is not set
}

// replaying is a replay in progress. When all its frames are written, a round with
// those published meanwhile follows, until there are none.
type replaying struct {
	frames []*frame
	next   int // index of the next frame to write
	done   int // bytes of that frame already written
	upTo   signal.Position
	round  int // number of frames in the previous round
}
