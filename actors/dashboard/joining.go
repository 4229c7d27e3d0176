package dashboard

import "slices"

// This file handles the position at which one subscription replaces another. The
// flusher has applied all earlier orders, so this is the position of the last events
// that it has seen: later ones go to the new cohort's log, earlier ones are in the old
// cohort's log or in a replay.

// maxSpans bounds the history of a connection's former subscriptions.
const maxSpans = 32

// unsubscribe ends p's subscription. Frames already published are still sent.
func (f *flusher) unsubscribe(p *peer) {
	at := f.position(p)
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
		f.count(c, p.frame, c.endFrame())
		f.queue(p)
	}
	c.leave(p)
}

// position returns the events that the flusher has seen of p's partition, including
// those that p's replays have read.
func (f *flusher) position(p *peer) passage {
	if p.audience == nil {
		return passage{}
	}
	at := f.passed[p.audience.partition]
	at.last = at.last.Later(p.reached)
	return at
}

// begin gives p the subscription sub, from now on or from the beginning of r.
func (f *flusher) begin(p *peer, sub *subscription, r *replay) {
	if c := p.audience.cohorts[sub.key]; c != nil {
		sub = c.sub // all members share one value
	}
	at := f.position(p)
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
	if r == nil && n > 0 && p.sent[n-1].sub.key == sub.key && p.sent[n-1].to == at.last {
		p.sent[n-1].open = true // the same subscription continues
	} else {
		if n == maxSpans {
			p.lostTo = p.lostTo.Later(p.sent[0].to)
			p.sent = slices.Delete(p.sent, 0, 1)
		}
		p.sent = append(p.sent, s)
	}
	f.subscribe(p, sub)
}

// join starts live delivery to p.
func (f *flusher) join(p *peer) {
	if p.sub.channels == 0 {
		return
	}
	p.audience.cohort(p.sub).join(p)
	if p.sub.channels.has(marketPrice) && !p.awaitingPrices {
		p.awaitingPrices = true
		f.awaitingPrices = append(f.awaitingPrices, p)
	}
}

// missed returns the frames of r that p did not get on this connection, up to the
// position at which live delivery starts. It returns false if it cannot know them all.
func (f *flusher) missed(p *peer, sub *subscription, r *replay) ([]*frame, bool) {
	if !r.complete || r.from.Compare(p.lostTo) < 0 {
		return nil, false
	}
	at := f.position(p)
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
		e := f.hub.ring.after(p.audience.partition, p.audience.account, sub, r.known, upTo, f.hub.o.ReplayMessages)
		if !e.covered || e.excess {
			return nil, false
		}
		take(e.frames)
	}
	if len(frames) > f.hub.o.ReplayMessages {
		return nil, false
	}
	return frames, true
}

// sinceHeld returns the live frames for sub that were published since p's subscription ended, with
// the replay that has them; none if they are not known.
func (f *flusher) sinceHeld(p *peer, sub *subscription) ([]*frame, *replay) {
	n := len(p.sent)
	if n == 0 {
		return nil, nil
	}
	r := &replay{complete: true, from: p.sent[n-1].to, known: p.sent[n-1].to}
	frames, ok := f.missed(p, sub, r)
	if !ok {
		return nil, nil
	}
	return frames, r
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

// catchUp continues after p got all frames of a replay: with those published
// meanwhile, or with live delivery if there are none. It reports whether p has
// everything.
func (f *flusher) catchUp(p *peer) bool {
	r, a := p.replay, p.audience
	upTo := f.position(p).last.Later(r.upTo)
	var e extract
	if upTo != r.upTo {
		e = f.hub.ring.after(a.partition, a.account, p.sub, r.upTo, upTo, f.hub.o.ReplayMessages)
		if !e.covered || e.excess {
			f.close(p, closeSlow)
			return true
		}
	}
	if len(e.frames) == 0 {
		p.replay = nil
		f.join(p)
		p.ref.Tell(caughtUp{})
		return true
	}
	// A client that reads more slowly than events are published would never catch up.
	// So each round must be shorter than the one before, or fit into the queue.
	if n := len(e.frames); n >= r.round && n > f.hub.o.QueueMessages {
		f.close(p, closeSlow)
		return true
	}
	p.replay = &replaying{frames: e.frames, upTo: upTo, round: len(e.frames)}
	return false
}
