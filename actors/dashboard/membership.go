package dashboard

import "slices"

// membership decides which events a connection gets when one subscription replaces another. The flusher has
// applied all earlier orders, so the position of the change is that of the last events that it has seen:
// later ones go to the new cohort's log, earlier ones are in the old cohort's log or in a replay.
type membership struct {
	hub       *Hub
	writer    *writer
	audiences *audiences
	lifecycle *lifecycle
}

// maxSpans bounds the history of a connection's former subscriptions.
const maxSpans = 32

// unsubscribe ends p's subscription. Frames already published are still sent.
func (m *membership) unsubscribe(p *peer) {
	at := m.audiences.position(p)
	if n := len(p.sent); n > 0 && p.sent[n-1].open {
		p.sent[n-1].open, p.sent[n-1].to = false, at.last
	}
	c := p.cohort
	if c == nil {
		return
	}
	if rest := c.behind(p); len(rest) > 0 {
		// A partly written frame must be completed before the private queue is sent.
		cut := 0
		if start := c.start(p.frame); p.offset > start {
			cut = int(c.start(p.frame+1) - p.offset)
		}
		queue := make([]byte, 0, len(p.private)-p.privateDone+len(rest))
		queue = append(queue, rest[:cut]...)
		queue = append(queue, p.private[p.privateDone:]...)
		queue = append(queue, rest[cut:]...)
		p.private, p.privateDone = queue, 0
		p.privateMessages += int(c.endFrame() - p.frame)
		m.writer.count(c, p.frame, c.endFrame())
		m.writer.queue(p)
	}
	c.leave(p)
}

// begin gives p the subscription sub, from now on or from the beginning of r.
func (m *membership) begin(p *peer, sub *subscription, r *replay) {
	if c := p.audience.cohorts[cohortKey{sub.subscriptionKey, p.transport}]; c != nil {
		sub = c.sub // all members share one value
	}
	at := m.audiences.position(p)
	s := span{sub: sub, from: at.last, early: at == passage{}, open: true}
	if r != nil {
		s.from, s.early = r.from, false
		p.reached = p.reached.Later(r.firm)
	}
	n := len(p.sent)
	if n > 0 && !p.sent[n-1].open && p.sent[n-1].from == p.sent[n-1].to {
		n-- // nothing was sent by it, as by the default subscription of most connections
		p.sent = p.sent[:n]
	}
	if r == nil && n > 0 && p.sent[n-1].sub.subscriptionKey == sub.subscriptionKey && p.sent[n-1].to == at.last {
		p.sent[n-1].open = true // the same subscription continues
	} else {
		if n == maxSpans {
			p.lostTo = p.lostTo.Later(p.sent[0].to)
			p.sent = slices.Delete(p.sent, 0, 1)
		}
		p.sent = append(p.sent, s)
	}
	m.audiences.subscribe(p, sub)
}

// missed returns the frames of r that p did not get on this connection, up to the
// position at which live delivery starts. It returns false if it cannot know them all.
func (m *membership) missed(p *peer, sub *subscription, r *replay) ([]*frame, bool) {
	if !r.complete || r.from.Compare(p.lostTo) < 0 {
		return nil, false
	}
	at := m.audiences.position(p)
	// The flusher has not seen events after upTo: they come live.
	upTo := at.last.Later(r.firm)
	var frames []*frame
	take := func(list []*frame) {
		for _, frame := range list {
			if frame.at.Compare(upTo) <= 0 && !p.wasSent(frame, at) {
				frames = append(frames, frame)
			}
		}
	}
	take(r.frames)
	if r.known.Compare(upTo) < 0 {
		// These were published between the search and now.
		e := m.hub.ring.after(p.audience.partition, p.audience.account, sub, r.known, upTo, m.hub.o.ReplayMessages)
		if !e.covered || e.excess {
			return nil, false
		}
		take(e.frames)
	}
	if len(frames) > m.hub.o.ReplayMessages {
		return nil, false
	}
	return frames, true
}

// sinceHeld returns the live frames for sub that were published since p's subscription ended, with
// the replay that has them; none if they are not known.
func (m *membership) sinceHeld(p *peer, sub *subscription) ([]*frame, *replay) {
	n := len(p.sent)
	if n == 0 {
		return nil, nil
	}
	r := &replay{complete: true, from: p.sent[n-1].to, known: p.sent[n-1].to}
	frames, ok := m.missed(p, sub, r)
	if !ok {
		return nil, nil
	}
	return frames, r
}

// catchUp continues after p got all frames of a replay: with those published
// meanwhile, or with live delivery if there are none. It reports whether p has
// everything.
func (m *membership) catchUp(p *peer) bool {
	r, a := p.replay, p.audience
	upTo := m.audiences.position(p).last.Later(r.upTo)
	var e extract
	if upTo != r.upTo {
		e = m.hub.ring.after(a.partition, a.account, p.sub, r.upTo, upTo, m.hub.o.ReplayMessages)
		if !e.covered || e.excess {
			m.lifecycle.close(p, closeSlow)
			return true
		}
	}
	if len(e.frames) == 0 {
		p.replay = nil
		m.audiences.join(p)
		p.ref.Tell(caughtUp{})
		return true
	}
	// A client that reads more slowly than events are published would never catch up.
	// So each round must be shorter than the one before, or fit into the queue.
	if n := len(e.frames); n >= r.round && n > m.hub.o.QueueMessages {
		m.lifecycle.close(p, closeSlow)
		return true
	}
	p.replay = &replaying{frames: e.frames, upTo: upTo, round: len(e.frames)}
	return false
}
