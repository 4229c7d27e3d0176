package dashboard

import (
	"math"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// published carries the events of a partition from first to last, of which frames holds
// those that concern the dashboard.
type published struct {
	partition   int
	first, last signal.Position
	frames      []*frame
}

func (o published) apply(f *flusher) {
	f.audiences.pass(o.partition, o.first, o.last)
	for rest := o.frames; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(f *frame) bool { return f.revoked == nil })
		if n != 0 { // revocations that follow each other are applied together
			if n < 0 {
				n = len(rest)
			}
			f.revoke(rest[:n])
			rest = rest[n:]
			continue
		}
		if a := f.audiences.of[rest[0].account]; a != nil {
			f.audiences.add(a, rest[0])
		}
		rest = rest[1:]
	}
}

// revoked reports events that end credentials and may not be published here.
type revoked struct{ events []signal.Event }

func (o revoked) apply(f *flusher) {
	var frames []*frame
	for i := range o.events {
		if frame := newFrame(&o.events[i], nil); frame != nil && frame.revoked != nil {
			frames = append(frames, frame)
		}
	}
	f.revoke(frames)
}

// gapped reports that events of a partition are missing between the last published one
// and the next. Its connections are closed, so that their clients resume.
type gapped struct{ partition int }

func (o gapped) apply(f *flusher) {
	delete(f.audiences.passed, o.partition)
	for _, a := range f.audiences.of {
		if a.partition != o.partition {
			continue
		}
		for _, p := range slices.Clone(a.peers) {
			f.lifecycle.close(p, closeGoingAway)
		}
	}
}

// attached adds a new connection. It is the first order for it.
type attached struct{ peer *peer }

func (o attached) apply(f *flusher) {
	f.lifecycle.add(o.peer)
	if f.draining {
		f.lifecycle.close(o.peer, closeGoingAway)
	}
}

// authenticated sets the owner of a connection, for the first time or again. The
// connection gets welcome as the answer, and the subscription sub from then on, unless sub
// is nil: then the subscription of the handshake follows.
type authenticated struct {
	peer    *peer
	account signal.AccountID
	key     signal.KeyID
	session signal.SessionID
	sub     *subscription
	welcome welcomeData
}

func (o authenticated) apply(f *flusher) {
	p := o.peer
	if p.ended() {
		return
	}
	if why, hit := f.revoked.hit(o.account, o.key, o.session, f.hub.clock()); hit {
		f.lifecycle.close(p, why)
		return
	}
	p.key, p.session = o.key, o.session
	if o.sub == nil {
		f.audiences.enter(p, o.account)
		return
	}
	f.membership.unsubscribe(p)
	f.lifecycle.welcome(p, o.welcome)
	f.audiences.enter(p, o.account)
	f.membership.begin(p, o.sub, nil)
	f.audiences.join(p)
}

// searching ends the subscription of a connection whose missed events are being searched for. What
// is published meanwhile is newer than those, and follows them.
type searching struct{ peer *peer }

func (o searching) apply(f *flusher) {
	if !o.peer.ended() && o.peer.audience != nil {
		f.membership.unsubscribe(o.peer)
	}
}

// subscribed replaces the subscription of an authenticated connection. Without a
// replay the new one starts after the last published event.
type subscribed struct {
	peer    *peer
	sub     *subscription
	replay  *replay // nil unless requested
	kind    string  // of the reply
	reply   func(*resumedData) any
	welcome *welcomeData // follows the reply; of a handshake's subscription only
}

func (o subscribed) apply(f *flusher) {
	p := o.peer
	if p.ended() || p.audience == nil {
		return
	}
	f.membership.unsubscribe(p)
	var frames []*frame
	var resumed *resumedData
	if o.replay != nil {
		resumed = &resumedData{}
		if frames, resumed.Complete = f.membership.missed(p, o.sub, o.replay); resumed.Complete {
			resumed.Replayed = len(frames)
		} else {
			frames, o.replay = f.membership.sinceHeld(p, o.sub)
		}
		f.hub.o.Metrics.resumed(resumed.Complete)
	}
	f.writer.send(p, encodeReply(o.kind, o.reply(resumed), f.hub.o.Now()))
	if o.welcome != nil {
		f.lifecycle.welcome(p, *o.welcome)
	}
	f.membership.begin(p, o.sub, o.replay)
	if len(frames) == 0 {
		f.audiences.join(p)
		p.ref.Tell(caughtUp{})
		return
	}
	p.replay = &replaying{frames: frames, upTo: f.audiences.position(p).last, round: math.MaxInt}
	f.writer.queue(p)
}

// sendReply adds a reply to the private queue.
type sendReply struct {
	peer *peer
	kind string
	data any
}

func (o sendReply) apply(f *flusher) {
	if !o.peer.ended() {
		f.writer.send(o.peer, encodeReply(o.kind, o.data, f.hub.o.Now()))
	}
}

// pinged answers a client's WebSocket ping.
type pinged struct {
	peer    *peer
	payload []byte
}

func (o pinged) apply(f *flusher) { f.writer.sendBytes(o.peer, appendControl(nil, opPong, o.payload)) }

// closeConn closes a connection.
type closeConn struct {
	peer *peer
	why  closing
}

func (o closeConn) apply(f *flusher) { f.lifecycle.close(o.peer, o.why) }

// writable reports that a socket with a writing goroutine accepts bytes again.
type writable struct{ peer *peer }

func (o writable) apply(f *flusher) {
	o.peer.refused = false
	f.writer.queue(o.peer)
}

// readerDone reports that nothing more is read from a connection.
type readerDone struct{ peer *peer }

func (o readerDone) apply(f *flusher) {
	if p := o.peer; p.transport == eventStream && !p.ended() {
		p.closed = closeBye // these clients have no other way to say it
	}
	f.lifecycle.remove(o.peer)
}

// drained closes all present and later connections.
type drained struct{}

func (drained) apply(f *flusher) {
	f.draining = true
	until := f.hub.clock() + int64(lingerTime)
	for _, p := range slices.Collect(f.lifecycle.peers.All()) {
		f.lifecycle.close(p, closeGoingAway)
		if p.closed == closeSlow { // it does not delay the end
			p.deadline = min(p.deadline, until)
			f.lifecycle.schedule(p)
		}
	}
}

// cutOff closes all sockets without a close frame.
type cutOff struct{}

func (cutOff) apply(f *flusher) {
	for _, p := range slices.Collect(f.lifecycle.peers.All()) {
		f.lifecycle.abandon(p)
		if !p.reading.Load() {
			f.lifecycle.remove(p)
		}
	}
}

// halted ends the flusher.
type halted struct{}

func (halted) apply(f *flusher) { f.halted = true }
