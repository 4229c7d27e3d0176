package dashboard

import (
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/heap"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// peer is a connection as its flusher knows it.
type peer struct {
	// Fixed.
	id      string
	flusher *flusher
	socket  socket
	settled func() // is called when it is authenticated, or has ended

	// Set before the reading goroutine starts.
	ref     engine.Ref // the connection's actor
	reading atomic.Bool

	lastSeen atomic.Int64 // when the client last sent anything, by Hub.clock

	// Guarded by Hub.mu.
	account  signal.AccountID // for which it counts; empty before authentication
	departed bool

	// The rest is touched by the flusher only.

	// Who it is. audience is nil before authentication and after the end.
	audience *audience
	seat     int // in audience.peers
	key      signal.KeyID
	session  signal.SessionID
	welcomed bool // has been authenticated

	// What it gets. While a replay is under way, cohort is nil.
	sub     *subscription // nil before authentication
	cohort  *cohort
	place   int    // in cohort.members
	offset  uint64 // of the next byte of the cohort's log
	frame   uint64 // number of the frame in which offset lies
	lagging bool   // counted in cohort.lagging
	sent    []span
	lostTo  signal.Position // spans that end before this are no longer in sent

	// Bytes for this client alone, which go out at the next frame boundary and ahead
	// of anything else.
	private         []byte
	privateDone     int // bytes of private that are written
	privateMessages int

	// reached is the position up to which replays read the event log: no event up to
	// it comes live any more.
	reached signal.Position
	replay  *replaying // nil if none is under way

	ready   bool // stands in flusher.ready
	refused bool // stands in flusher.refused: the kernel takes no more
	// overSince is when the kernel first refused while p was over the queue's
	// limits; 0 if it is not.
	overSince int64

	// Times by Hub.clock.
	due      int64 // the earliest of those below; see flusher.peers
	rank     int   // place in the heap
	nextBeat int64 // 0 before authentication
	nextPing int64
	deadline int64 // when the socket is closed, whatever is left; 0 while it is open

	closed   closing // zero while it is open
	finished bool    // the close frame is written
	gone     bool    // removed
}

// ended says that nothing but the close frame is still to be written to p.
func (p *peer) ended() bool { return p.closed.code != 0 || p.finished || p.gone }

// span says that everything that matches sub, after from and up to to, was sent.
type span struct {
	sub      *subscription
	from, to signal.Position
	// early: nothing of the partition had been published when the span began, so it
	// begins with the first event that was.
	early bool
	open  bool // goes on: to is not set
}

// replaying is a replay under way. When all is written, what came meanwhile is
// next, and so on until nothing came.
type replaying struct {
	frames []*frame
	next   int // the frame that is to be written
	done   int // bytes of it that are written
	upTo   signal.Position
	round  int // frames of the round before this one
}

// newDeadlines returns the heap of a flusher's peers by due. It holds all of them.
func newDeadlines() heap.Heap[*peer] {
	return heap.New(func(a, b *peer) bool { return a.due < b.due }, func(p *peer, rank int) { p.rank = rank })
}

// schedule brings p's place in the heap up to date.
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

// expire does what is due.
func (f *flusher) expire() {
	now := f.hub.clock()
	for f.peers.Len() > 0 && f.peers.Top().due <= now {
		p := f.peers.Top()
		switch {
		case p.deadline != 0 && p.deadline <= now:
			p.deadline = now + int64(lingerTime)
			p.socket.Close()
			if !p.reading.Load() { // nobody will tell of the end
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

// after returns when what was due at due is due again.
func after(due int64, every time.Duration, now int64) int64 {
	return max(due+int64(every), now)
}
