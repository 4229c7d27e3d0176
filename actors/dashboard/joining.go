package dashboard

import "slices"

// This file is about the position at which a subscription takes the place of the
// one before. The flusher has done all orders up to now, so that position is the
// last that it has passed: what is published later gets into the new cohort's log,
// what was published before is in the old one's, or in a replay.

// maxSpans bounds what is remembered of a connection's former subscriptions.
const maxSpans = 32

// part ends p's subscription. What was published for it is still sent.
func (f *flusher) part(p *peer) {
	at := f.position(p)
	if n := len(p.sent); n > 0 && p.sent[n-1].open {
		p.sent[n-1].open, p.sent[n-1].to = false, at.last
	}
	c := p.cohort
	if c == nil {
		return
	}
	if rest := c.behind(p); len(rest) > 0 {
		// The frame that is partly written stays ahead of what is in the private queue.
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

// position returns what the flusher has seen of p's partition, or p by a replay.
func (f *flusher) position(p *peer) passage {
	if p.audience == nil {
		return passage{}
	}
	at := f.passed[p.audience.partition]
	at.last = later(at.last, p.reached)
	return at
}

// begin gives p the subscription sub from now on, or from where r begins.
func (f *flusher) begin(p *peer, sub *subscription, r *replay) {
	at := f.position(p)
	s := span{sub: sub, from: at.last, early: at == passage{}, open: true}
	if r != nil {
		s.from, s.early = r.from, false
		p.reached = later(p.reached, r.firm)
	}
	n := len(p.sent)
	if r == nil && n > 0 && p.sent[n-1].sub.key == sub.key && p.sent[n-1].to == at.last {
		p.sent[n-1].open = true // the same goes on
	} else {
		if n == maxSpans {
			p.lostTo = later(p.lostTo, p.sent[0].to)
			p.sent = slices.Delete(p.sent, 0, 1)
		}
		p.sent = append(p.sent, s)
	}
	if c := p.audience.cohorts[sub.key]; c != nil {
		sub = c.sub // one for all members
	}
	f.subscribe(p, sub)
}

// join begins live delivery to p.
func (f *flusher) join(p *peer) {
	if p.sub.channels != 0 {
		p.audience.cohort(p.sub).join(p)
	}
}

// missed returns what of r is to be sent to p: what it did not get on this
// connection, up to where live delivery begins. It returns false if that is not
// known.
func (f *flusher) missed(p *peer, sub *subscription, r *replay) ([]*frame, bool) {
	if !r.complete || r.from.Compare(p.lostTo) < 0 {
		return nil, false
	}
	at := f.position(p)
	// What lies after upTo is not in this flusher's past: it comes live.
	upTo := later(at.last, r.firm)
	var frames []*frame
	take := func(list []*frame) {
		for _, frame := range list {
			if frame.at.Compare(upTo) <= 0 && !p.got(frame, at) {
				frames = append(frames, frame)
			}
		}
	}
	take(r.frames)
	if r.known.Compare(upTo) < 0 {
		// Published between the search and now.
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

// got says that frame was sent on this connection, or is on its way.
func (p *peer) got(frame *frame, at passage) bool {
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

// catchUp goes on after p got all frames of a replay: with what was published
// meanwhile, or live if that is nothing. It returns false if there is more to
// write.
func (f *flusher) catchUp(p *peer) bool {
	r, a := p.replay, p.audience
	upTo := later(f.position(p).last, r.upTo)
	var e extract
	if upTo != r.upTo {
		if e = f.hub.ring.after(a.partition, a.account, p.sub, r.upTo, upTo, f.hub.o.ReplayMessages); !e.covered || e.excess {
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
	// Who reads more slowly than events come never gets there: each round must be
	// shorter than the one before, unless it is within the limits of the queue.
	if n := len(e.frames); n >= r.round && n > f.hub.o.QueueMessages {
		f.close(p, closeSlow)
		return true
	}
	p.replay = &replaying{frames: e.frames, upTo: upTo, round: len(e.frames)}
	return false
}
