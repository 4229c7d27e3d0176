package dashboard

import (
	"math"
	"time"

	"github.com/agentsignal/agentsignal/actors/heap"
)

const (
	closingTime = 5 * time.Second // time to write the close frame
	lingerTime  = 2 * time.Second // time for the client's close frame after that
)

// lifecycle begins and ends the connections of a flusher, and sends what their clients get at certain times.
type lifecycle struct {
	hub       *Hub
	writer    *writer
	audiences *audiences
	peers     heap.Heap[*peer] // all connections, by peer.due
}

func newLifecycle(h *Hub, w *writer, a *audiences) *lifecycle {
	peers := heap.New(func(a, b *peer) bool { return a.due < b.due }, func(p *peer, rank int) { p.rank = rank })
	return &lifecycle{hub: h, writer: w, audiences: a, peers: peers}
}

// add adds a new connection.
func (l *lifecycle) add(p *peer) {
	now := l.hub.clock()
	p.lastSeen.CompareAndSwap(0, now)
	if p.nextPing = math.MaxInt64; p.transport == webSocket {
		p.nextPing = now + int64(l.hub.o.PingInterval)
	}
	l.peers.Push(p)
	l.schedule(p)
	if p.transport == eventStream {
		l.writer.sendBytes(p, append(appendRetry(p.head, closing{}), '\n'))
		p.head = nil
	}
}

// welcome sends the welcome of p. Heartbeats follow from the first one on.
func (l *lifecycle) welcome(p *peer, data welcomeData) {
	l.writer.send(p, encodeReply("welcome", data, l.hub.o.Now()))
	if !p.welcomed {
		p.welcomed = true
		l.hub.o.Metrics.connected(connectOK)
		p.nextBeat = l.hub.clock() + int64(l.hub.o.Heartbeat)
		l.schedule(p)
	}
}

// due returns when expire has something to do.
func (l *lifecycle) due() int64 {
	if l.peers.Len() == 0 {
		return math.MaxInt64
	}
	return l.peers.Top().due
}

// schedule updates p's place in the heap.
func (l *lifecycle) schedule(p *peer) {
	switch {
	case p.deadline != 0:
		p.due = p.deadline
	default:
		p.due = min(p.nextPing, p.lifeless(l.hub.o.LifeTimeout))
		if p.nextBeat != 0 {
			p.due = min(p.due, p.nextBeat)
		}
	}
	l.peers.Fix(p.rank)
}

// expire handles all peers whose time is due.
func (l *lifecycle) expire() {
	now := l.hub.clock()
	for l.due() <= now {
		p := l.peers.Top()
		switch {
		case p.deadline != 0 && p.deadline <= now:
			p.deadline = now + int64(lingerTime)
			p.socket.Close()
			if !p.reading.Load() { // nothing will post readerDone
				l.remove(p)
				continue
			}
		case p.deadline != 0:
		case p.lifeless(l.hub.o.LifeTimeout) <= now:
			l.close(p, closeLifeless)
			continue
		default:
			l.beat(p, now)
		}
		l.schedule(p)
	}
}

// beat sends the heartbeat and the ping if they are due.
func (l *lifecycle) beat(p *peer, now int64) {
	if p.nextBeat != 0 && p.nextBeat <= now {
		p.nextBeat = after(p.nextBeat, l.hub.o.Heartbeat, now)
		l.writer.sent[heartbeat]++
		l.writer.send(p, encodeHeartbeat(l.hub.o.Now()))
	}
	if p.nextPing <= now {
		p.nextPing = after(p.nextPing, l.hub.o.PingInterval, now)
		l.writer.sendBytes(p, appendControl(nil, opPing, nil))
	}
}

// after returns the time that follows due in steps of every, but not before now.
func after(due int64, every time.Duration, now int64) int64 {
	return max(due+int64(every), now)
}

// close ends p with its reason, a close frame or the event close. It completes a partly written frame first and drops
// the other frames, except private ones.
func (l *lifecycle) close(p *peer, why closing) {
	if p.ended() {
		return
	}
	private := p.private[p.privateDone:]
	var rest []byte // of a partly written frame
	if c := p.cohort; c != nil && p.offset > c.start(p.frame) {
		rest = c.behind(p)[:c.start(p.frame+1)-p.offset]
	}
	if r := p.replay; r != nil && r.done > 0 {
		rest = r.frames[r.next].appendTo(nil, p.transport)[r.done:]
	}
	last := append(append([]byte(nil), rest...), private...)
	p.private, p.privateDone = p.transport.appendClose(last, why, l.hub.o.Now()), 0
	l.audiences.leave(p)
	p.closed = why
	p.deadline = l.hub.clock() + p.closeLimit(closingTime)
	if p.refused {
		// The kernel's buffer is full: make room for the close frame.
		p.socket.widen()
		p.refused = false
	}
	l.schedule(p)
	l.writer.queue(p)
}

// finish closes the sending side after the close frame. The socket stays open until
// the client has closed too, at most for lingerTime: what a client sends to a socket that
// is closed loses it what it has not read.
func (l *lifecycle) finish(p *peer) {
	p.finished = true
	p.socket.finish()
	p.deadline = l.hub.clock() + p.closeLimit(lingerTime)
	l.schedule(p)
}

// abandon closes p's socket at once, without a close frame.
func (l *lifecycle) abandon(p *peer) {
	l.audiences.leave(p)
	p.finished = true
	p.socket.Close()
	p.deadline = l.hub.clock() + int64(lingerTime)
	l.schedule(p)
}

// remove closes p's socket and drops p.
func (l *lifecycle) remove(p *peer) {
	if !p.removed {
		l.audiences.leave(p)
		p.removed = true
		p.private = nil
		l.peers.Remove(p.rank)
		p.socket.Close()
		l.hub.connectionEnded(p)
	}
	// If the actor has not started yet, its reading will end at once and post readerDone
	// again.
	if p.reading.Load() {
		p.ref.Tell(ended{})
	}
}
