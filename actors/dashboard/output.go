package dashboard

import "errors"

// errRefused means that the kernel accepts no more bytes at present.
var errRefused = errors.New("socket buffer is full")

// source is the origin of the next bytes for a client.
type source uint8

const (
	fromNowhere source = iota
	fromPrivate
	fromReplay
	fromLog
)

// next returns the bytes to write to p next. At a frame boundary private bytes come
// first, then the replay, then the cohort's log.
func (f *flusher) next(p *peer) ([]byte, source) {
	private := p.privateDone < len(p.private)
	if r := p.replay; r != nil {
		if r.done > 0 && private {
			return r.frames[r.next].bytes[r.done:], fromReplay
		}
		if !private && r.next < len(r.frames) {
			return f.gather(r), fromReplay
		}
	}
	if c := p.cohort; c != nil && p.offset < c.end() {
		if !private {
			return c.behind(p), fromLog
		}
		if p.offset > c.start(p.frame) {
			return c.behind(p)[:c.start(p.frame+1)-p.offset], fromLog
		}
	}
	if private {
		return p.private[p.privateDone:], fromPrivate
	}
	return nil, fromNowhere
}

// gather returns the next bytes of a replay, at most maxWrite or one frame.
func (f *flusher) gather(r *replaying) []byte {
	first := r.frames[r.next].bytes[r.done:]
	if r.next+1 == len(r.frames) || len(first) >= maxWrite {
		return first
	}
	f.scratch = append(f.scratch[:0], first...)
	for _, frame := range r.frames[r.next+1:] {
		if len(f.scratch)+len(frame.bytes) > maxWrite {
			break
		}
		f.scratch = append(f.scratch, frame.bytes...)
	}
	return f.scratch
}

// advance records that n bytes from s were written.
func (f *flusher) advance(p *peer, s source, n int) {
	f.sentBytes += uint64(n)
	switch s {
	case fromPrivate:
		p.privateDone += n
		if p.privateDone == len(p.private) {
			p.private, p.privateDone, p.privateMessages = nil, 0, 0
		}
	case fromReplay:
		for r := p.replay; n > 0; {
			left := len(r.frames[r.next].bytes) - r.done
			if n < left {
				r.done += n
				return
			}
			f.sent[r.frames[r.next].channel]++
			r.frames[r.next] = nil
			n, r.done, r.next = n-left, 0, r.next+1
		}
	case fromLog:
		c, from := p.cohort, p.frame
		p.offset += uint64(n)
		if p.offset == c.end() {
			p.frame = c.endFrame()
		} else {
			for c.start(p.frame+1) <= p.offset {
				p.frame++
			}
		}
		f.count(c, from, p.frame)
	}
}

// turn writes to p until p has everything, the kernel refuses, or maxWrite bytes are
// written.
func (f *flusher) turn(p *peer) {
	if p.removed || p.finished || p.refused {
		return
	}
	for budget := maxWrite; ; {
		b, s := f.next(p)
		if s == fromNowhere {
			if f.onCaughtUp(p) {
				return
			}
			continue
		}
		if budget == 0 {
			f.queue(p)
			return
		}
		b = b[:min(len(b), budget)]
		n, err := p.socket.write(f.writer, b)
		f.yield()
		if n > 0 {
			f.advance(p, s, n)
			budget -= n
		}
		switch {
		case errors.Is(err, errRefused), err == nil && n < len(b):
			f.refuse(p)
			return
		case err != nil:
			f.abandon(p)
			return
		}
	}
}

// queue gives p a turn in this pass or the next.
func (f *flusher) queue(p *peer) {
	if !p.ready && !p.refused {
		p.ready = true
		f.ready = append(f.ready, p)
	}
}

// onCaughtUp is called when nothing is left to write to p. It returns false if the
// replay has more after all.
func (f *flusher) onCaughtUp(p *peer) bool {
	p.overSince = 0
	if p.lagging {
		p.lagging = false
		c := p.cohort
		if c.lagging--; c.lagging == 0 && !c.dirty {
			c.release()
		}
	}
	if p.replay != nil {
		return f.catchUp(p)
	}
	if p.closed.code != 0 && !p.finished {
		f.finish(p)
	}
	return true
}

// refuse records that the kernel accepts no more of p's bytes. A client that is over
// the limits of the queue then, and still is at a later try, is closed: it had the time
// in between to read what was in the kernel's buffer.
func (f *flusher) refuse(p *peer) {
	if !p.refused {
		if len(f.waiting) == 0 {
			f.retryAt = f.hub.clock() + int64(retryAfter)
		}
		p.refused = true
		f.waiting = append(f.waiting, p)
	}
	messages, bytes := p.privateMessages, len(p.private)-p.privateDone
	if c := p.cohort; c != nil {
		messages += int(c.endFrame() - p.frame)
		bytes += int(c.end() - p.offset)
	}
	if messages <= f.hub.o.QueueMessages && bytes <= f.hub.o.QueueBytes {
		p.overSince = 0
		return
	}
	now := f.hub.clock()
	if p.overSince == 0 {
		p.overSince = now
	} else if now-p.overSince >= int64(retryAfter) {
		f.close(p, closeSlow)
	}
}

// send adds a finished frame to p's private queue.
func (f *flusher) send(p *peer, b []byte) {
	if p.ended() {
		return
	}
	p.private = append(p.private, b...)
	p.privateMessages++
	f.queue(p)
}

// close ends p with a close frame. It completes a partly written frame first and drops
// the other frames, except private ones.
func (f *flusher) close(p *peer, why closing) {
	if p.ended() {
		return
	}
	private := p.private[p.privateDone:]
	var rest []byte // of a partly written frame
	if c := p.cohort; c != nil && p.offset > c.start(p.frame) {
		rest = c.behind(p)[:c.start(p.frame+1)-p.offset]
	}
	if r := p.replay; r != nil && r.done > 0 {
		rest = r.frames[r.next].bytes[r.done:]
	}
	last := append(append([]byte(nil), rest...), private...)
	p.private, p.privateDone = appendClose(last, why), 0
	f.detach(p)
	p.closed = why
	p.deadline = f.hub.clock() + p.patience(closingTime)
	if p.refused {
		// The kernel's buffer is full: make room for the close frame.
		p.socket.widen()
		p.refused = false
	}
	f.schedule(p)
	f.queue(p)
}

// finish closes the sending side after the close frame. The socket stays open until
// the client has closed too, at most for lingerTime: what a client sends to a socket that
// is closed loses it what it has not read.
func (f *flusher) finish(p *peer) {
	p.finished = true
	p.socket.finish()
	p.deadline = f.hub.clock() + p.patience(lingerTime)
	f.schedule(p)
}

// abandon closes p's socket at once, without a close frame.
func (f *flusher) abandon(p *peer) {
	f.detach(p)
	p.finished = true
	p.socket.Close()
	p.deadline = f.hub.clock() + int64(lingerTime)
	f.schedule(p)
}

// detach removes p from its account, so that it gets no more events.
func (f *flusher) detach(p *peer) {
	if p.cohort != nil {
		p.cohort.leave(p)
	}
	f.subscribe(p, nil)
	p.replay, p.sent = nil, nil
	a := p.audience
	if a == nil {
		return
	}
	last := len(a.peers) - 1
	moved := a.peers[last]
	a.peers[p.seat], moved.seat = moved, p.seat
	a.peers[last] = nil
	a.peers = a.peers[:last]
	p.audience = nil
	if last == 0 {
		delete(f.audiences, a.account)
	}
}

// subscribe sets p's subscription and counts it.
func (f *flusher) subscribe(p *peer, sub *subscription) {
	if p.sub != nil {
		f.hub.o.Metrics.subscribed(p.sub.channels, -1)
	}
	if p.sub = sub; sub != nil {
		f.hub.o.Metrics.subscribed(sub.channels, +1)
	}
}
