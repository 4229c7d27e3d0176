package dashboard

import (
	"encoding/binary"
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
	at, seen := f.passed[o.partition]
	if !seen {
		at.first = o.first
	}
	at.last = o.last
	f.passed[o.partition] = at
	for _, frame := range o.frames {
		if frame.revoked != nil {
			f.revoke(frame)
			continue
		}
		if a := f.audiences[frame.account]; a != nil {
			a.concerned(frame, func(c *cohort) { f.add(c, frame) })
		}
	}
}

// revoked reports events that end credentials and may not be published here.
type revoked struct{ events []signal.Event }

func (o revoked) apply(f *flusher) {
	for i := range o.events {
		if frame := newFrame(&o.events[i], nil); frame != nil && frame.revoked != nil {
			f.revoke(frame)
		}
	}
}

// add appends frame to c's log, which is written in this pass.
func (f *flusher) add(c *cohort, frame *frame) {
	c.append(frame)
	if !c.dirty {
		c.dirty = true
		f.dirty = append(f.dirty, c)
	}
}

// revoke closes the connections whose credential is no longer valid.
func (f *flusher) revoke(e *frame) {
	now := f.hub.clock()
	list := slices.DeleteFunc(f.revoked[e.account], func(r recent) bool { return now-r.clock > int64(recentFor) })
	r := recent{revocation: *e.revoked, at: e.at, clock: now}
	f.revoked[e.account] = append(list, r)
	if a := f.audiences[e.account]; a != nil {
		for _, p := range slices.Clone(a.peers) {
			if why, hit := r.hits(p.key, p.session); hit {
				f.close(p, why)
			}
		}
	}
	for account, list := range f.revoked {
		if now-list[len(list)-1].clock > int64(recentFor) {
			delete(f.revoked, account)
		}
	}
}

// hits reports whether, and how, the revocation closes a connection of its account
// that was authenticated by key or session.
func (r recent) hits(key signal.KeyID, session signal.SessionID) (closing, bool) {
	switch r.kind {
	case signal.AccountDeleted:
		return closeForbidden, true
	case signal.KeyRevoked:
		return closeUnauth, key != "" && string(key) == r.subject
	case signal.SessionEnded:
		ended := string(session) == r.subject || r.subject == "" && startedBefore(session, r.at)
		return closeUnauth, session != "" && ended
	}
	return closing{}, false
}

// startedBefore reports whether session began no later than p, by the time in its ID.
func startedBefore(session signal.SessionID, p signal.Position) bool {
	id, ok := signal.ULIDBytes(string(session))
	if !ok {
		return true
	}
	return int64(binary.BigEndian.Uint64(id[:8])>>16) <= p.MS
}

// gapped reports that events of a partition are missing between the last published one
// and the next. Its connections are closed, so that their clients resume.
type gapped struct{ partition int }

func (o gapped) apply(f *flusher) {
	delete(f.passed, o.partition)
	for _, a := range f.audiences {
		if a.partition != o.partition {
			continue
		}
		for _, p := range slices.Clone(a.peers) {
			f.close(p, closeGoingAway)
		}
	}
}

// attached adds a new connection. It is the first order for it.
type attached struct{ peer *peer }

func (o attached) apply(f *flusher) {
	p, now := o.peer, f.hub.clock()
	p.lastSeen.CompareAndSwap(0, now)
	p.nextPing = now + int64(f.hub.o.PingInterval)
	f.peers.Push(p)
	f.schedule(p)
	if f.draining {
		f.close(p, closeGoingAway)
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
	for _, r := range f.revoked[o.account] {
		if f.hub.clock()-r.clock > int64(recentFor) {
			continue
		}
		if why, hit := r.hits(o.key, o.session); hit {
			f.close(p, why)
			return
		}
	}
	p.key, p.session = o.key, o.session
	if o.sub == nil {
		f.addToAccount(p, o.account)
		return
	}
	f.unsubscribe(p)
	f.welcome(p, o.welcome)
	f.addToAccount(p, o.account)
	f.begin(p, o.sub, nil)
	f.join(p)
}

// welcome sends the welcome of p. Heartbeats follow from the first one on.
func (f *flusher) welcome(p *peer, data welcomeData) {
	f.send(p, encodeReply("welcome", data, f.hub.o.Now()))
	if !p.welcomed {
		p.welcomed = true
		f.hub.o.Metrics.connected(connectOK)
		p.nextBeat = f.hub.clock() + int64(f.hub.o.Heartbeat)
		f.schedule(p)
	}
}

// addToAccount adds p to the connections of account.
func (f *flusher) addToAccount(p *peer, account signal.AccountID) {
	if p.audience != nil {
		return
	}
	a := f.audiences[account]
	if a == nil {
		a = newAudience(account, f.hub.o.PartitionOf(account), f.hub.prices)
		f.audiences[account] = a
	}
	p.audience, p.seat = a, len(a.peers)
	a.peers = append(a.peers, p)
}

// searching ends the subscription of a connection whose missed events are being searched for. What
// is published meanwhile is newer than those, and follows them.
type searching struct{ peer *peer }

func (o searching) apply(f *flusher) {
	if !o.peer.ended() && o.peer.audience != nil {
		f.unsubscribe(o.peer)
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
	f.unsubscribe(p)
	var frames []*frame
	var resumed *resumedData
	if o.replay != nil {
		resumed = &resumedData{}
		if frames, resumed.Complete = f.missed(p, o.sub, o.replay); resumed.Complete {
			resumed.Replayed = len(frames)
		} else {
			frames, o.replay = f.sinceHeld(p, o.sub)
		}
		f.hub.o.Metrics.resumed(resumed.Complete)
	}
	f.send(p, encodeReply(o.kind, o.reply(resumed), f.hub.o.Now()))
	if o.welcome != nil {
		f.welcome(p, *o.welcome)
	}
	f.begin(p, o.sub, o.replay)
	if len(frames) == 0 {
		f.join(p)
		p.ref.Tell(caughtUp{})
		return
	}
	p.replay = &replaying{frames: frames, upTo: f.position(p).last, round: math.MaxInt}
	f.queue(p)
}

// sendReply adds a reply to the private queue.
type sendReply struct {
	peer *peer
	kind string
	data any
}

func (o sendReply) apply(f *flusher) {
	if !o.peer.ended() {
		f.send(o.peer, encodeReply(o.kind, o.data, f.hub.o.Now()))
	}
}

// pinged answers a client's WebSocket ping.
type pinged struct {
	peer    *peer
	payload []byte
}

func (o pinged) apply(f *flusher) { f.send(o.peer, appendControl(nil, opPong, o.payload)) }

// closeConn closes a connection.
type closeConn struct {
	peer *peer
	why  closing
}

func (o closeConn) apply(f *flusher) { f.close(o.peer, o.why) }

// writable reports that a socket with a writing goroutine accepts bytes again.
type writable struct{ peer *peer }

func (o writable) apply(f *flusher) {
	o.peer.refused = false
	f.queue(o.peer)
}

// readerDone reports that nothing more is read from a connection.
type readerDone struct{ peer *peer }

func (o readerDone) apply(f *flusher) { f.remove(o.peer) }

// remove closes p's socket and drops p.
func (f *flusher) remove(p *peer) {
	if !p.removed {
		f.detach(p)
		p.removed = true
		p.private = nil
		f.peers.Remove(p.rank)
		p.socket.Close()
		f.hub.connectionEnded(p)
	}
	// If the actor has not started yet, its reading will end at once and post readerDone
	// again.
	if p.reading.Load() {
		p.ref.Tell(ended{})
	}
}

// drained closes all present and later connections.
type drained struct{}

func (drained) apply(f *flusher) {
	f.draining = true
	until := f.hub.clock() + int64(lingerTime)
	for _, p := range slices.Collect(f.peers.All()) {
		f.close(p, closeGoingAway)
		if p.closed == closeSlow { // it does not delay the end
			p.deadline = min(p.deadline, until)
			f.schedule(p)
		}
	}
}

// cutOff closes all sockets without a close frame.
type cutOff struct{}

func (cutOff) apply(f *flusher) {
	for _, p := range slices.Collect(f.peers.All()) {
		f.abandon(p)
		if !p.reading.Load() {
			f.remove(p)
		}
	}
}

// halted ends the flusher.
type halted struct{}

func (halted) apply(f *flusher) { f.halted = true }
