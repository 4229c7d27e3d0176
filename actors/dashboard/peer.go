package dashboard

import (
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/heap"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// peer is a connection as its flusher sees it.
type peer struct {
	// Fixed.
	id      string
	flusher *flusher
	socket  socket
	settled func() // called when it is authenticated or has ended

	// Set before an order that needs ref is posted, and before reading begins.
	ref     engine.Ref // the connection's actor
	reading atomic.Bool

	lastSeen atomic.Int64 // when the client last sent bytes, by Hub.clock

	// Guarded by Hub.mu.
	account  signal.AccountID // in Hub.accounts; empty before authentication
	departed bool

	// Guarded by namedAssets.mu.
	named    []asset // by its filter
	nameless bool    // it has ended

	// The rest is used by the flusher only.

	// Identity. audience is nil before authentication and after the end.
	audience *audience
	seat     int // in audience.peers
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

	ready          bool // listed in flusher.ready
	awaitingPrices bool // listed in flusher.awaitingPrices
	refused        bool // listed in flusher.waiting: the kernel accepts no more bytes
	// overSince is when the kernel first refused while p was over the queue's
	// limits; 0 if it is not.
	overSince int64

	// Times by Hub.clock.
	due      int64 // the earliest of those below; see flusher.peers
	rank     int   // index in the heap
	nextBeat int64 // 0 before authentication
	nextPing int64
	deadline int64 // when the socket is closed even if bytes are left; 0 while it is open

	closed   closing // zero while it is open
	finished bool    // the close frame is written
	removed  bool    // no longer in flusher.peers
}

// ended reports whether p receives nothing more except its close frame.
func (p *peer) ended() bool { return p.closed.code != 0 || p.finished || p.removed }

// patience returns how long a step of closing p may take that usually takes no longer than usual. A
// client that reads too slowly may come back as long as the kernel keeps what it has not read.
func (p *peer) patience(usual time.Duration) int64 {
	if p.closed == closeSlow {
		return int64(userTimeout)
	}
	return int64(usual)
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

// newDeadlines returns the heap of a flusher's peers by due. It holds all of them.
func newDeadlines() heap.Heap[*peer] {
	return heap.New(func(a, b *peer) bool { return a.due < b.due }, func(p *peer, rank int) { p.rank = rank })
}

// schedule updates p's place in the heap.
func (f *flusher) schedule(p *peer) {
	switch {
	case p.deadline != 0:
		p.due = p.deadline
	default:
		p.due = min(p.nextPing, p.lastSeen.Load()+int64(f.hub.o.LifeTimeout))
		if p.nextBeat != 0 {
			p.due = min(p.due, p.nextBeat)
		}
	}
	f.peers.Fix(p.rank)
}

// expire handles all peers whose time is due.
func (f *flusher) expire() {
	now := f.hub.clock()
	for f.peers.Len() > 0 && f.peers.Top().due <= now {
		p := f.peers.Top()
		switch {
		case p.deadline != 0 && p.deadline <= now:
			p.deadline = now + int64(lingerTime)
			p.socket.Close()
			if !p.reading.Load() { // nothing will post readerDone
				f.remove(p)
				continue
			}
		case p.deadline != 0:
		case now-p.lastSeen.Load() >= int64(f.hub.o.LifeTimeout):
			f.close(p, closeLifeless)
			continue
		default:
			f.beat(p, now)
		}
		f.schedule(p)
	}
}

// beat sends the heartbeat and the ping if they are due.
func (f *flusher) beat(p *peer, now int64) {
	if p.nextBeat != 0 && p.nextBeat <= now {
		p.nextBeat = after(p.nextBeat, f.hub.o.Heartbeat, now)
		f.sent[heartbeat]++
		f.send(p, encodeHeartbeat(f.hub.o.Now()))
	}
	if p.nextPing <= now {
		p.nextPing = after(p.nextPing, f.hub.o.PingInterval, now)
		f.send(p, appendControl(nil, opPing, nil))
	}
}

// after returns the time that follows due in steps of every, but not before now.
func after(due int64, every time.Duration, now int64) int64 {
	return max(due+int64(every), now)
}
