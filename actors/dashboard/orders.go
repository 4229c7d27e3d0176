package dashboard

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// published brings events of a partition: frames are those that concern clients,
// the others lie between first and last too.
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
			a.concerned(frame, func(c *cohort) {
				c.append(frame)
				if !c.dirty {
					c.dirty = true
					f.dirty = append(f.dirty, c)
				}
			})
		}
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

// hits says how the revocation closes a connection of its account that was
// authenticated by a key or by a session.
func (r recent) hits(key signal.KeyID, session signal.SessionID) (closing, bool) {
	switch r.kind {
	case signal.AccountDeleted:
		return closeForbidden, true
	case signal.KeyRevoked:
		return closeUnauth, key != "" && string(key) == r.subject
	case signal.SessionEnded:
		return closeUnauth, session != "" && (string(session) == r.subject || r.subject == "" && startedBefore(session, r.at))
	}
	return closing{}, false
}

// startedBefore says that session began no later than p: an identifier holds the
// time at which it was made.
func startedBefore(session signal.SessionID, p signal.Position) bool {
	id, ok := signal.ULIDBytes(string(session))
	if !ok {
		return true
	}
	return int64(binary.BigEndian.Uint64(id[:8])>>16) <= p.MS
}

// gapped says that events of a partition are missing between the last published
// and the next. Its connections are sent away to come back and resume.
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

// attached hands a connection over, before anything else concerns it.
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

// authenticated says who a connection belongs to, for the first time or again. It
// gets sub from then on, and welcome for an answer.
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
	f.part(p)
	f.send(p, encodeReply("welcome", o.welcome, f.hub.o.Now()))
	if !p.welcomed {
		p.welcomed = true
		f.hub.o.Metrics.connected(connectOK)
		p.nextBeat = f.hub.clock() + int64(f.hub.o.Heartbeat)
		f.schedule(p)
	}
	f.attend(p, o.account)
	f.begin(p, o.sub, nil)
	f.join(p)
}

// attend puts p among the connections of account.
func (f *flusher) attend(p *peer, account signal.AccountID) {
	if p.audience != nil {
		return
	}
	a := f.audiences[account]
	if a == nil {
		a = newAudience(account, f.hub.o.PartitionOf(account))
		f.audiences[account] = a
	}
	p.audience, p.seat = a, len(a.peers)
	a.peers = append(a.peers, p)
}

// subscribed replaces the subscription of an authenticated connection. Without a
// replay it goes on from the events that were published last.
type subscribed struct {
	peer   *peer
	sub    *subscription
	replay *replay // nil unless asked for
	kind   string  // of the reply
	reply  func(*resumedData) any
}

func (o subscribed) apply(f *flusher) {
	p := o.peer
	if p.ended() || p.audience == nil {
		return
	}
	f.part(p)
	var frames []*frame
	var resumed *resumedData
	if o.replay != nil {
		resumed = &resumedData{}
		if frames, resumed.Complete = f.missed(p, o.sub, o.replay); !resumed.Complete {
			o.replay = nil
		}
		resumed.Replayed = len(frames)
		f.hub.o.Metrics.resumed(resumed.Complete)
	}
	f.send(p, encodeReply(o.kind, o.reply(resumed), f.hub.o.Now()))
	f.begin(p, o.sub, o.replay)
	if len(frames) == 0 {
		f.join(p)
		p.ref.Tell(caughtUp{})
		return
	}
	p.replay = &replaying{frames: frames, upTo: f.position(p).last, round: math.MaxInt}
	f.queue(p)
}

// said puts a reply into the private queue.
type said struct {
	peer *peer
	kind string
	data any
}

func (o said) apply(f *flusher) {
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

// shut closes a connection.
type shut struct {
	peer *peer
	why  closing
}

func (o shut) apply(f *flusher) { f.close(o.peer, o.why) }

// takenOver says that a socket which writes by a goroutine can take more.
type takenOver struct{ peer *peer }

func (o takenOver) apply(f *flusher) {
	o.peer.refused = false
	f.queue(o.peer)
}

// left says that nothing more will come from a connection: the end.
type left struct{ peer *peer }

func (o left) apply(f *flusher) { f.remove(o.peer) }

// remove forgets p.
func (f *flusher) remove(p *peer) {
	if !p.gone {
		f.detach(p)
		p.gone = true
		p.private = nil
		f.peers.Remove(p.rank)
		p.socket.Close()
		f.hub.left(p)
	}
	// If the actor has not begun yet, its reading will end at once and come here
	// again.
	if p.reading.Load() {
		p.ref.Tell(ended{})
	}
}

// drained closes all connections, and those to come.
type drained struct{}

func (drained) apply(f *flusher) {
	f.draining = true
	for _, p := range slices.Collect(f.peers.All()) {
		f.close(p, closeGoingAway)
	}
}

// cutOff closes all sockets without a word.
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
